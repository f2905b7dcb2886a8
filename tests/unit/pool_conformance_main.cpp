// The conformance cases on the pools of this machine that are named on the command line:
//
//   pool_conformance [KIND:WHAT[:SIZE]]... [doctest's options, for example --reporters=junit --out=FILE]
//
// The exit status is not 0 when a case fails or when a pool cannot be had; pool_kinds.hpp lists the kinds.
#define DOCTEST_CONFIG_IMPLEMENT
#include <iostream>

#include "pool_kinds.hpp"

int main(int argc, char** argv) {
    using namespace maru::pool_tests;
    std::vector<Subject> subjects;
    std::vector<const char*> rest{argv[0]};
    for (int i = 1; i < argc; ++i) {
        if (argv[i][0] == '-') {
            rest.push_back(argv[i]);
            continue;
        }
        const auto found = subjects_of(argv[i]);
        if (found.empty()) return 2;
        subjects.insert(subjects.end(), found.begin(), found.end());
    }
    if (subjects.empty()) {
        std::cerr << "usage: pool_conformance KIND:WHAT[:SIZE]... [doctest options]\n";
        return 2;
    }
    use_subjects(std::move(subjects));
    doctest::Context context;
    context.applyCommandLine(static_cast<int>(rest.size()), rest.data());
    return context.run();
}
