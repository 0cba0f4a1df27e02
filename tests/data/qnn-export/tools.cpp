// Stands for generateIO, generateLlmIO and compilefornpu, by the name it is called by. STANDIN_FAIL makes one
// fail in the ways that users have reported: NAME=crash|nothing|usage|shape|folder.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace fs = std::filesystem;

static std::string read(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    if (!in) {
        std::cout << "Can't open file:" << file.string() << std::endl;
        std::exit(1);
    }
    return {std::istreambuf_iterator<char>(in), {}};
}

static void write(const fs::path& file, const std::string& text) {
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
}

static std::string failure(const std::string& name) {
    const char* given = std::getenv("STANDIN_FAIL");
    std::string all = given ? given : "";
    auto at = all.find(name + "=");
    return at == std::string::npos ? "" : all.substr(at + name.size() + 1, all.find(' ', at) - at - name.size() - 1);
}

// What stands between `before` and `after` in a JSON text, however it is laid out.
static std::vector<std::string> all(std::string text, const std::string& before, char after) {
    text.erase(std::remove_if(text.begin(), text.end(), [](unsigned char c) { return c <= ' '; }), text.end());
    std::vector<std::string> found;
    for (size_t at = text.find(before); at != std::string::npos; at = text.find(before, at + 1)) {
        size_t from = at + before.size();
        found.push_back(text.substr(from, text.find(after, from) - from));
    }
    return found;
}

static void io(const fs::path& folder, const std::string& shape) {
    write(folder / "input.mnn", "inputs of " + shape + "\n");
    write(folder / "output.mnn", "outputs of " + shape + "\n");
}

int main(int argc, char** argv) {
    std::string name = fs::path(argv[0]).filename().string(), how = failure(name);
    std::vector<std::string> args(argv + 1, argv + argc);
    if (how == "crash") std::raise(SIGSEGV);
    if (args.size() < 3 || how == "usage") {
        std::cout << "Usage: " << name << " ..." << std::endl;
        return 0;
    }
    if (how == "nothing") return 0;
    if (name == "generateLlmIO") {
        read(fs::path(args[0]) / "llm.mnn");
        for (auto& length : {std::string("1"), args[2]}) io(fs::path(args[1]) / length, length);
        return 0;
    }
    if (name == "generateIO") {
        read(args[0]);
        read(args[3]);
        auto shapes = all(read(args[1]), "\"input_ids\",\"shape\":[", ',');
        for (size_t i = 0; i < shapes.size(); ++i) io(fs::path(args[2]) / std::to_string(i), shapes[i]);
        return 0;
    }
    // compilefornpu MODEL TARGET CONFIG
    std::string weight = read(args[0] + ".weight"), config = read(args[2]);
    read(args[0]);
    std::cout << "Convert for QNN, QualComn's NPU" << std::endl;
    auto tests = all(config, "\"testdir/", '"');
    for (auto& test : tests) test = "testdir/" + test;
    for (auto& test : tests) read(fs::path(test) / "input.mnn"), read(fs::path(test) / "output.mnn");
    if (how == "shape") {
        std::cout << "Compute Shape Error for /Add_70_output_0" << std::endl;
        return 0;
    }
    auto names = all(config, "\"graph_name\":\"", '"');
    std::string graph = names.empty() ? "graphllm" : names[0];
    std::ostringstream merge;
    for (int k = 0; k < 2; ++k) {
        merge << (k ? ", " : "") << "\"qnn/" << graph << k << ".bin\": [";
        for (size_t i = 0; i < tests.size(); ++i) {
            std::string one = graph + (i ? std::to_string(i) + "_" : "") + std::to_string(k);
            merge << (i ? ", " : "") << "\"qnn/" << one << "\"";
            if (how == "folder" && k == 1) continue;
            write("qnn/" + one + "/" + one + ".cpp", "// shape " + read(fs::path(tests[i]) / "input.mnn"));
            size_t half = weight.size() / 2;
            write("qnn/" + one + "/weight.raw", weight.substr(k * half, half));
        }
        merge << "]";
    }
    write(args[1], read(PLUGIN_MODEL));
    std::cout << "Write config to npu_postreat.json" << std::endl;
    write("./npu_postreat.json", "{\"type\": \"QNN\", \"merge\": {" + merge.str() + "}, \"cache\": \"qnn\"}");
    return 0;
}
