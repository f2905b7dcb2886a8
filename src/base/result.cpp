#include "base/result.hpp"

namespace maru {

const char* describe(Code code) {
    switch (code) {
        case Code::ok:
            return "done";
        case Code::exists:
            return "the key is already present; the first value stays";
        case Code::miss:
            return "the key is not present";
        case Code::invalid:
            return "an argument is not valid";
        case Code::too_large:
            return "the size is larger than what is allowed";
        case Code::full:
            return "no free space is left and nothing could be evicted";
        case Code::pinned:
            return "the object is pinned";
        case Code::not_reserved:
            return "the page is not reserved by this client";
        case Code::fenced:
            return "this client was fenced: connect again";
        case Code::forked:
            return "this process was forked from the one that connected: connect again";
        case Code::unavailable:
            return "the daemon cannot be reached";
        case Code::timeout:
            return "the daemon did not answer in time";
        case Code::contended:
            return "publication was given up under contention";
        case Code::index_full:
            return "the index has no room left for this key";
        case Code::damaged:
            return "the shared memory is damaged";
        case Code::poisoned:
            return "the memory of this object is damaged";
        case Code::denied:
            return "not permitted";
        case Code::version:
            return "the other side speaks another version";
    }
    return "unknown status";
}

}  // namespace maru
