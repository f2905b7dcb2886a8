// Counterpart: what a program writes first. A std::unordered_map in one process under a std::shared_mutex.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace maru::bench {

class LockedMap {
  public:
    struct Place {
        const void* data;
        std::uint64_t size;
    };

    explicit LockedMap(std::size_t objects) { map_.reserve(objects); }

    void insert(std::string_view key, Place place) {
        const std::unique_lock hold(mutex_);
        map_.emplace(key, place);
    }
    /// The value behind the key, copied out under the reader's lock.
    bool find(std::string_view key, Place* place) const {
        const std::shared_lock hold(mutex_);
        const auto found = map_.find(key);
        if (found == map_.end()) return false;
        *place = found->second;
        return true;
    }

  private:
    struct Hash {  // lets a lookup go without building a std::string
        using is_transparent = void;
        std::size_t operator()(std::string_view key) const { return std::hash<std::string_view>{}(key); }
    };
    mutable std::shared_mutex mutex_;
    std::unordered_map<std::string, Place, Hash, std::equal_to<>> map_;
};

}  // namespace maru::bench
