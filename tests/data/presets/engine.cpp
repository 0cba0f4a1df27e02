namespace MNN {
namespace Express {
struct Module {
    static Module* load(const char* fileName, int length);
};
Module* Module::load(const char* fileName, int length) { return fileName && length > 0 ? new Module : nullptr; }
}  // namespace Express
namespace Transformer {
struct Llm {
    static Llm* createLLM(const char* config_path);
    bool load();
    void initRuntime();
    int backend = 0;
};
Llm* Llm::createLLM(const char* config_path) { return config_path ? new Llm : nullptr; }
bool Llm::load() {
    initRuntime();
    return Express::Module::load("llm.mnn", backend) != nullptr;
}
void Llm::initRuntime() { backend = 3; }
}  // namespace Transformer
}  // namespace MNN

extern "C" int load_model(const char* config) { return MNN::Transformer::Llm::createLLM(config)->load() ? 0 : 1; }
