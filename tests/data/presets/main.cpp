extern "C" int load_model(const char* config);

int main() { return load_model("config.json"); }
