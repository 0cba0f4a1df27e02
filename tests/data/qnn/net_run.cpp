// Stands for qnn-net-run: opens the backend and the model, reads the inputs' list, writes Result_N/Y.raw. A model
// library has compute(); a context binary holds one behind "LIBRARY:". On HTP numbers become 16 bits wide.
#include <dlfcn.h>
#include <sys/stat.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

static std::string read(const std::string& name) {
    std::ifstream in(name, std::ios::binary);
    if (!in) std::printf("[ ERROR ] Unable to open %s\n", name.c_str()), std::exit(1);
    return {std::istreambuf_iterator<char>(in), {}};
}

static float half(float value) {  // 10 bits of fraction
    unsigned bits;
    std::memcpy(&bits, &value, 4);
    bits &= 0xFFFFE000;
    std::memcpy(&value, &bits, 4);
    return value;
}

int main(int argc, char** argv) {
    std::map<std::string, std::string> options;
    for (int i = 1; i + 1 < argc; i += 2) options[argv[i]] = argv[i + 1];
    std::printf("qnn-net-run pid:%d\nqnn-net-run build version: v2.42.0.251225120000_1\n", 4711);
    std::string backend = options["--backend"], model = options["--model"], context = options["--retrieve_context"];
    if (!dlopen(backend.c_str(), RTLD_NOW)) return std::printf("[ ERROR ] %s\n", dlerror()), 1;
    if (options.count("--fail")) return std::printf("%s", read(options["--fail"]).c_str()), 14;
    std::istringstream packages(options["--op_packages"]);
    for (std::string one; std::getline(packages, one, ',');) {  // LIBRARY:PROVIDER:PROCESSOR
        size_t first = one.find(':'), second = one.find(':', first + 1);
        void* opened = dlopen(("./" + one.substr(0, first)).c_str(), RTLD_NOW);
        if (!opened || !dlsym(opened, one.substr(first + 1, second - first - 1).c_str()))
            return std::printf("[ ERROR ] Could not register Op Package: %s\n", one.c_str()), 1;
        std::printf("Op package for %s registered\n", one.substr(second + 1).c_str());
    }
    if (!context.empty()) {
        std::string data = read(context), mark = "LIBRARY:";
        size_t at = data.rfind(mark);
        model = "./from-context.so";
        std::ofstream(model, std::ios::binary) << data.substr(at + mark.size());
    }
    void* library = dlopen(model.c_str(), RTLD_NOW);
    if (!library) return std::printf("[ ERROR ] %s\n", dlerror()), 1;
    auto compute = (size_t(*)(const float*, size_t, float*))dlsym(library, "compute");
    std::istringstream list(read(options["--input_list"]));
    std::string line, folder = options["--output_dir"];
    mkdir(folder.c_str(), 0755);
    for (int number = 0; std::getline(list, line); ++number) {
        std::string input = read(line.substr(line.find(":=") == std::string::npos ? 0 : line.find(":=") + 2));
        std::vector<float> values(4096);
        size_t count = compute((const float*)input.data(), input.size() / 4, values.data());
        if (!count) return std::printf("[ ERROR ] input size mismatch\n"), 1;
        if (backend.find("Htp") != std::string::npos)
            for (auto& value : values) value = half(value);
        std::string result = folder + "/Result_" + std::to_string(number);
        mkdir(result.c_str(), 0755);
        std::ofstream(result + "/Y.raw", std::ios::binary).write((const char*)values.data(), count * 4);
    }
    if (options.count("--profiling_level"))
        std::ofstream(folder + "/qnn-profiling-data_0.log") << "profile" << '\0' << options["--profiling_level"];
    std::printf("Executing Graphs\nFinished Executing Graphs\n");
}
