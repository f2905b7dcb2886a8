// Gives a target the files of the folders and paths on its command line, one by one: what a build without
// libFuzzer does with a corpus. The status is 1 when there was no file, or when the corpus leaves out what
// the target wants to see; an input that breaks a promise ends the process.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "target.hpp"

namespace {

std::vector<std::filesystem::path> files_of(const char* path) {
    std::vector<std::filesystem::path> files;
    if (!std::filesystem::exists(path)) return files;
    if (!std::filesystem::is_directory(path)) return {path};
    for (const auto& entry : std::filesystem::directory_iterator(path))
        if (entry.is_regular_file()) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
}

}  // namespace

int main(int count, char** arguments) {
    std::size_t inputs = 0;
    for (int a = 1; a < count; ++a)
        for (const auto& path : files_of(arguments[a])) {
            std::ifstream file(path, std::ios::binary);
            if (!file) {
                std::fprintf(stderr, "cannot read %s\n", path.c_str());
                return 1;
            }
            const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
            std::printf("%s: %zu bytes\n", path.c_str(), bytes.size());
            std::fflush(stdout);
            const std::vector<std::uint8_t> input(bytes.begin(), bytes.end());
            LLVMFuzzerTestOneInput(input.data(), input.size());
            ++inputs;
        }
    std::printf("%zu inputs\n", inputs);
    const char* unreached = maru_fuzz_unreached != nullptr ? maru_fuzz_unreached() : "";
    if (unreached[0] != 0) std::fprintf(stderr, "no input reached: %s\n", unreached);
    return inputs == 0 || unreached[0] != 0 ? 1 : 0;
}
