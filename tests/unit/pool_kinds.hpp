// The kinds of pools that the conformance cases run on, and what the cases need to look at them.
#pragma once

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/size.hpp"
#include "pool/pool.hpp"

namespace maru::pool_tests {

/// A folder of this test alone, on the file system that the kind needs; goes with everything in it.
class Scratch {
  public:
    /// Makes none for a kind that has no files.
    explicit Scratch(const std::string& parent);
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch();
    std::string file(const std::string& name = "pool") const { return folder_ + "/" + name; }
    bool is_empty() const;

  private:
    std::string folder_;
};

/// One source of memory to run the cases on.
struct Subject {
    pool::PoolConfig base;   ///< without name, path and size
    std::string title;       ///< "hugetlb:2MiB, nameless"
    std::string parent;      ///< folder of its files; empty: it has none
    std::string device;      ///< the path of a kind without files
    std::uint64_t unit = 0;  ///< the alignment that it must have
    std::uint64_t size = 0;  ///< of a pool in a case; a multiple of unit
    bool sparse = true;      ///< can be without its memory

    bool has_file() const { return !parent.empty(); }
    pool::PoolConfig config(const Scratch& scratch) const { return config(scratch, size); }
    pool::PoolConfig config(const Scratch& scratch, std::uint64_t bytes) const;
    /// Takes back what cases before left where there is no file to delete.
    void make_blank() const;
};

/// "KIND:WHAT[:SIZE]": shm:FOLDER, numa:NODE, fsdax:FOLDER, page_cache:FOLDER (fsdax without dax, allowed),
/// hugetlb:PAGE (a file where such a hugetlbfs is mounted, else a nameless one), devdax:PATH (loses what is
/// on the device). Empty, with a sentence on stderr, for anything else.
std::vector<Subject> subjects_of(const std::string& argument);
/// Instead of those that every machine has.
void use_subjects(std::vector<Subject> subjects);

/// Runs a case for each subject, with an empty folder each.
void for_each_kind(const std::function<void(const Subject&, const Scratch&)>& story);
/// For those that have a file.
void for_each_file(const std::function<void(const Subject&, const Scratch&)>& story);
/// For those that no name leads to.
void for_each_nameless(const std::function<void(const Subject&, const Scratch&)>& story);

std::unique_ptr<pool::Pool> opened(const pool::PoolConfig& config, Descriptor kept = {});
/// What leads the next open to a pool that has no name; empty for others.
Descriptor keep(const pool::Pool& pool);
/// The error of an open that must fail.
std::string refusal(const pool::PoolConfig& config);
shm::Mapping mapped(const pool::Pool& pool, std::uint64_t offset, std::uint64_t length);

void make_file(const std::string& path, std::uint64_t bytes, mode_t mode = 0600,
               const std::string& content = {});
struct stat status_of(const std::string& path);
std::uint64_t taken_bytes(const std::string& path);
bool exists(const std::string& path);
void check_contains(const std::string& text, std::initializer_list<std::string> parts);

}  // namespace maru::pool_tests
