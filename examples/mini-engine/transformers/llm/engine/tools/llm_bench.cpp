// SPDX-License-Identifier: Apache-2.0
// Measures like MNN's llm_bench and prints its tables and its JSON: the same options, columns and widths.
#include <MNN/AutoTime.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <sstream>
#include "json.hpp"
#include "llm/llm.hpp"

using MNN::Transformer::Json;
using MNN::Transformer::Llm;

namespace {
const int kToken = 16; // what MNN's llm_bench feeds, whatever the model
const int kLoads = 3;

struct Options {
    std::vector<std::string> models;
    std::vector<int> backends, threads, precisions, memories, prompts, generations, repeats;
    std::vector<std::pair<int, int>> both;
    bool loadTime = false;
    bool useMmap = false;
    bool help = false;
    bool json = false;
    std::string jsonFile = "llm_bench.json";
};

// One row of the table.
struct Test {
    std::string config, model;
    uint64_t bytes = 0;
    int backend = 0, threads = 0, precision = 0, memory = 0, prompt = 0, generate = 0, repeat = 0;
    std::vector<double> prefillTps, decodeTps, totalTps, loadS;
};

// ---- numbers

double mean(const std::vector<double>& values) {
    return values.empty() ? 0.0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double deviation(const std::vector<double>& values) {
    if (values.size() < 2) {
        return 0.0;
    }
    const double middle = mean(values);
    double sum = 0.0;
    for (const double value : values) {
        sum += (value - middle) * (value - middle);
    }
    return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

std::string spread(const std::vector<double>& values) {
    char text[64];
    std::snprintf(text, sizeof text, "%.2f ± %.2f", mean(values), deviation(values));
    return text;
}

// The shortest digits that mean the same number, without an exponent where JSON writers avoid it.
std::string number(double value) {
    char text[64];
    for (int digits = 1; digits <= 17; ++digits) {
        std::snprintf(text, sizeof text, "%.*g", digits, value);
        if (std::strtod(text, nullptr) == value) {
            break;
        }
    }
    const std::string shortest = text;
    const size_t exponent = shortest.find("e-0");
    if (exponent != std::string::npos) {
        const int zeros = std::atoi(shortest.c_str() + exponent + 2);
        std::string digits = shortest.substr(0, exponent);
        digits.erase(std::remove(digits.begin(), digits.end(), '.'), digits.end());
        return "0." + std::string(static_cast<size_t>(zeros - 1), '0') + digits;
    }
    return shortest.find_first_of(".en") == std::string::npos ? shortest + ".0" : shortest;
}

// ---- the command line

template <typename T>
std::vector<T> split(const std::string& text) {
    std::vector<T> values;
    std::istringstream parts(text);
    std::string part;
    while (std::getline(parts, part, ',')) {
        T value{};
        std::istringstream(part) >> value;
        values.push_back(value);
    }
    return values;
}

void append(std::vector<int>& values, const std::string& text) {
    const auto more = split<int>(text);
    values.insert(values.end(), more.begin(), more.end());
}

void usage(const char* program) {
    std::printf("usage: %s [options]\n\noptions:\n"
                "  -h, --help\n"
                "  -m, --model <filename>                    (default: ./Qwen2.5-1.5B-Instruct/config.json)\n"
                "  -a, --backends <cpu,opencl,metal>         (default: cpu)\n"
                "  -c, --precision <n>                       (default: 2) | Note: (0:Normal(for cpu bakend, 'Normal' is "
                "'High'),1:High,2:Low)\n"
                "  -t, --threads <n>                         (default: 4)\n"
                "  -p, --n-prompt <n>                        (default: 512)\n"
                "  -n, --n-gen <n>                           (default: 128)\n"
                "  -pg <pp,tg>                               (default: 0,0)\n"
                "  -mmp, --mmap <0|1>                        (default: 0)\n"
                "  -rep, --n-repeat <n>                      (default: 5)\n"
                "  -load, --loading-time <true|false>        (default: true)\n"
                "  -j, --json <filename>                     (default: llm_bench.json) | Note: if set, output result to "
                "a JSON file\n",
                program);
}

bool take(Options& options, const std::string& name, const std::string& value) {
    if (name == "-m" || name == "--model") {
        const auto more = split<std::string>(value);
        options.models.insert(options.models.end(), more.begin(), more.end());
    } else if (name == "-a" || name == "--backends") {
        for (const auto& backend : split<std::string>(value)) {
            options.backends.push_back(backend == "metal" ? 1 : backend == "opencl" ? 3 : 0);
        }
    } else if (name == "-c" || name == "--precision") {
        append(options.precisions, value);
    } else if (name == "--memory") {
        append(options.memories, value);
    } else if (name == "-t" || name == "--threads") {
        auto more = split<int>(value);
        std::sort(more.rbegin(), more.rend());
        options.threads.insert(options.threads.end(), more.begin(), more.end());
    } else if (name == "-p" || name == "--n-prompt") {
        append(options.prompts, value);
    } else if (name == "-n" || name == "--n-gen") {
        append(options.generations, value);
    } else if (name == "-rep" || name == "--n-repeat") {
        append(options.repeats, value);
    } else if (name == "-pg") {
        const auto pair = split<int>(value);
        if (pair.size() != 2) {
            return false;
        }
        options.both.emplace_back(pair[0], pair[1]);
    } else if (name == "-mmp" || name == "--mmap") {
        options.useMmap = value == "1";
    } else if (name == "-load" || name == "--loading-time") {
        options.loadTime = value == "true";
    } else {
        return false;
    }
    return true;
}

bool parse(int argc, char** argv, Options& options) {
    for (int i = 1; i < argc; ++i) {
        std::string name = argv[i];
        if (name.compare(0, 2, "--") == 0) {
            std::replace(name.begin(), name.end(), '_', '-');
        }
        if (name == "-h" || name == "--help") {
            options.help = true;
            return true;
        }
        if (name == "-j" || name == "--json") {
            options.json = true;
            if (i + 1 < argc && argv[i + 1][0] != '-') {
                options.jsonFile = argv[++i];
            }
        } else if (i + 1 >= argc || !take(options, name, argv[++i])) {
            std::fprintf(stderr, "error: invalid parameter for argument: %s\n", name.c_str());
            return false;
        }
    }
    const auto otherwise = [](std::vector<int>& values, int value) {
        if (values.empty()) {
            values.push_back(value);
        }
    };
    otherwise(options.backends, 0);
    otherwise(options.threads, 4);
    otherwise(options.precisions, 2);
    otherwise(options.memories, 2);
    otherwise(options.prompts, 512);
    otherwise(options.generations, 128);
    otherwise(options.repeats, 5);
    if (options.models.empty()) {
        options.models.emplace_back("./Qwen2.5-1.5B-Instruct/config.json");
    }
    return true;
}

std::vector<Test> tests(const Options& options) {
    std::vector<Test> all;
    for (const auto& model : options.models)
        for (const int backend : options.backends)
            for (const int precision : options.precisions)
                for (const int memory : options.memories)
                    for (const int threads : options.threads) {
                        const auto add = [&](int prompt, int generate) {
                            if (prompt > 0 || generate > 0) {
                                Test test;
                                test.config = model;
                                test.backend = backend;
                                test.precision = precision;
                                test.memory = memory;
                                test.threads = threads;
                                test.prompt = prompt;
                                test.generate = generate;
                                test.repeat = options.repeats[0];
                                all.push_back(test);
                            }
                        };
                        for (const int prompt : options.prompts) {
                            add(prompt, 0);
                        }
                        for (const int generate : options.generations) {
                            add(0, generate);
                        }
                        for (const auto& pair : options.both) {
                            add(pair.first, pair.second);
                        }
                    }
    return all;
}

// ---- measuring

bool describeModel(Test& test) {
    const size_t slash = test.config.find_last_of("/\\");
    if (slash == std::string::npos) {
        MNN_ERROR("Invalid model config path\n");
        return false;
    }
    const std::string folder = test.config.substr(0, slash);
    test.model = folder.substr(folder.find_last_of("/\\") + 1);
    std::ifstream file(test.config);
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    Json config;
    std::string error;
    Json::parse(text, config, error);
    std::ifstream weight(folder + "/" + config.string("llm_weight", "llm.mnn.weight"), std::ios::binary | std::ios::ate);
    test.bytes = weight ? static_cast<uint64_t>(weight.tellg()) : 0;
    return true;
}

void measure(Llm* llm, Test& test) {
    const auto* context = llm->getContext();
    const auto speed = [](int tokens, int64_t us) { return 1e6 * tokens / static_cast<double>(std::max<int64_t>(us, 1)); };
    for (int i = 0; i < test.repeat + 1; ++i) {
        int64_t prefill = 0, decode = 0;
        llm->reset();
        if (test.prompt > 0) {
            llm->generate(std::vector<int>(static_cast<size_t>(test.prompt), kToken), 1);
            prefill = context->prefill_us;
        }
        if (test.generate > 0) {
            if (test.prompt == 0) {
                llm->reset();
            }
            const int64_t before = context->decode_us;
            llm->generate({kToken}, context->gen_seq_len + test.generate);
            decode = context->decode_us - before;
        }
        if (i == 0) {
            continue; // the first one warms up
        }
        test.prefillTps.push_back(speed(test.prompt, prefill));
        test.decodeTps.push_back(speed(test.generate, decode));
        test.totalTps.push_back(speed(test.prompt + test.generate, prefill + decode));
    }
}

bool run(Test& test, const Options& options) {
    static const char* const levels[] = {"normal", "high", "low"};
    if (!describeModel(test)) {
        return false;
    }
    std::unique_ptr<Llm> llm(Llm::createLLM(test.config));
    const char* backend = test.backend == 1 ? "metal" : test.backend == 3 ? "opencl" : "cpu";
    std::ostringstream settings;
    settings << "{\"backend_type\": \"" << backend << "\", \"thread_num\": " << test.threads << ", \"precision\": \""
             << levels[test.precision % 3] << "\", \"memory\": \"" << levels[test.memory % 3]
             << "\", \"use_mmap\": " << (options.useMmap ? "true" : "false") << ", \"ignore_eos\": 1}";
    llm->set_config(settings.str());
    for (int i = 0; i < (options.loadTime ? kLoads : 1); ++i) {
        const MNN::Timer timer;
        if (!llm->load()) {
            return false;
        }
        if (options.loadTime) {
            test.loadS.push_back(static_cast<double>(timer.durationInUs()) / 1e6);
        }
    }
    measure(llm.get(), test);
    return true;
}

// ---- the table

struct Column {
    std::string name;
    int width; // negative: to the left
};

std::vector<Column> columns(const Options& options) {
    std::vector<Column> all = {{"model", -30}, {"modelSize", 10}, {"backend", -10}, {"threads", 5}, {"precision", -10}};
    if (options.memories.size() > 1) {
        all.push_back({"memory", -10});
    }
    if (options.useMmap) {
        all.push_back({"mmap", 4});
    }
    all.push_back({"test", -13});
    if (options.both.empty()) {
        all.push_back({"t/s", 10});
    } else {
        all.push_back({"speed(tok/s)", -12});
    }
    if (options.loadTime) {
        all.push_back({"loadingTime(s)", -14});
    }
    return all;
}

std::string cell(const std::string& column, const Test& test, const Options& options) {
    static const char* const levels[] = {"Normal", "High", "Low"};
    char text[128];
    if (column == "model") {
        return test.model;
    }
    if (column == "modelSize") {
        const double mebibytes = static_cast<double>(test.bytes) / 1024.0 / 1024.0;
        const bool small = test.bytes < (uint64_t(1) << 30);
        std::snprintf(text, sizeof text, small ? "%.2f MiB" : "%.2f GiB", small ? mebibytes : mebibytes / 1024.0);
        return text;
    }
    if (column == "backend") {
        return test.backend == 1 ? "METAL" : test.backend == 3 ? "OPENCL" : "CPU";
    }
    if (column == "threads") {
        return std::to_string(test.threads);
    }
    if (column == "precision") {
        return levels[test.precision % 3];
    }
    if (column == "memory") {
        return levels[test.memory % 3];
    }
    if (column == "mmap") {
        return options.useMmap ? "true" : "false";
    }
    if (column == "test") {
        std::string name = test.prompt > 0 ? "pp" + std::to_string(test.prompt) : "";
        name += test.prompt > 0 && test.generate > 0 ? "+" : "";
        return name + (test.generate > 0 ? "tg" + std::to_string(test.generate) : "");
    }
    if (column == "t/s") {
        return spread(test.totalTps);
    }
    if (column == "speed(tok/s)") {
        std::string speeds = test.prompt > 0 ? spread(test.prefillTps) : "";
        speeds += test.prompt > 0 && test.generate > 0 ? "<br>" : "";
        return speeds + (test.generate > 0 ? spread(test.decodeTps) : "");
    }
    return spread(test.loadS);
}

void printHeader(const std::vector<Column>& all) {
    std::string names = "|", lines = "|";
    for (const auto& column : all) {
        char text[64];
        std::snprintf(text, sizeof text, " %*s |", column.width, column.name.c_str());
        names += text;
        const int dashes = std::abs(column.width) - 1;
        lines += " " + std::string(static_cast<size_t>(dashes), '-') + (column.width > 0 ? ": |" : "- |");
    }
    std::printf("%s\n%s\n", names.c_str(), lines.c_str());
}

void printRow(const std::vector<Column>& all, const Test& test, const Options& options) {
    std::printf("|");
    for (const auto& column : all) {
        // "±" has two bytes, which printf counts.
        const int width = column.name == "t/s" ? column.width + 1 : column.width;
        std::printf(" %*s |", width, cell(column.name, test, options).c_str());
    }
    std::printf("\n");
}

// ---- the JSON file

std::string jsonResult(const Test& test) {
    std::ostringstream out;
    if (test.generate == 0) {
        out << "{\"type\":\"prefill\",\"prompt_len\":" << test.prompt << ",\"tps\":" << number(mean(test.prefillTps))
            << ",\"std\":" << number(deviation(test.prefillTps));
    } else if (test.prompt == 0) {
        out << "{\"type\":\"decode\",\"generate_len\":" << test.generate << ",\"tps\":" << number(mean(test.decodeTps))
            << ",\"std\":" << number(deviation(test.decodeTps));
    } else {
        out << "{\"type\":\"prefill_and_decode\",\"prompt_len\":" << test.prompt
            << ",\"generate_len\":" << test.generate << ",\"prefill_tps\":" << number(mean(test.prefillTps))
            << ",\"prefill_std\":" << number(deviation(test.prefillTps))
            << ",\"decode_tps\":" << number(mean(test.decodeTps))
            << ",\"decode_std\":" << number(deviation(test.decodeTps));
    }
    if (!test.loadS.empty()) {
        out << ",\"loading_time\":" << number(mean(test.loadS))
            << ",\"loading_time_std\":" << number(deviation(test.loadS));
    }
    out << "}";
    return out.str();
}

bool writeJson(const std::string& path, const std::vector<Test>& done, const Options& options) {
    std::ofstream file(path);
    if (!file) {
        MNN_ERROR("Failed to open %s for writing\n", path.c_str());
        return false;
    }
    const Test& first = done[0];
    std::string name;
    for (const char letter : first.model) {
        name += letter == '"' || letter == '\\' ? std::string("\\") + letter : std::string(1, letter);
    }
    file << "{\"model\":\"" << name << "\",\"modelSize\":"
         << number(static_cast<double>(first.bytes) / 1024.0 / 1024.0 / 1024.0) << ",\"backend\":\""
         << cell("backend", first, options) << "\",\"threads\":" << first.threads
         << ",\"useMmap\":" << (options.useMmap ? "true" : "false") << ",\"precision\":" << first.precision
         << ",\"memory\":" << first.memory << ",\"power\":0,\"quantKv\":0,\"flashAttention\":1,\"results\":[";
    for (size_t i = 0; i < done.size(); ++i) {
        file << (i > 0 ? "," : "") << jsonResult(done[i]);
    }
    file << "]}\n";
    return true;
}
} // namespace

int main(int argc, char** argv) {
    Options options;
    if (!parse(argc, argv, options)) {
        usage(argv[0]);
        MNN_ERROR("Parse arguments error\n");
        return -1;
    }
    if (options.help) {
        usage(argv[0]);
        return 0;
    }
    const std::vector<Column> table = columns(options);
    std::vector<Test> done;
    std::vector<Test> all = tests(options);
    for (Test& test : all) {
        if (!run(test, options)) {
            return 1;
        }
        if (done.empty()) {
            printHeader(table);
        }
        printRow(table, test, options);
        done.push_back(test);
    }
    std::printf("\n");
    if (options.json && !done.empty() && !writeJson(options.jsonFile, done, options)) {
        return 1;
    }
    return 0;
}
