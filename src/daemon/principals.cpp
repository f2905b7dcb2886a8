#include "daemon/principals.hpp"

#include <grp.h>
#include <pwd.h>

#include <charconv>

namespace maru::daemon {

Result<std::uint32_t> parse_principal(Principal kind, const std::string& text) {
    const bool is_user = kind == Principal::user;
    const std::string what = is_user ? "user" : "group";
    if (!text.empty() && text.find_first_not_of("0123456789") == std::string::npos) {
        std::uint32_t number = 0;
        const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (problem == std::errc{} && end == text.data() + text.size() && number <= principal_max)
            return number;
        return Error{Code::invalid, "\"" + text.substr(0, 60) + "\" is no number of a " + what + ": 0 to " +
                                        std::to_string(principal_max)};
    }
    if (text.find('\0') == std::string::npos) {
        if (is_user) {
            if (const passwd* found = ::getpwnam(text.c_str())) return found->pw_uid;
        } else if (const group* found = ::getgrnam(text.c_str())) {
            return found->gr_gid;
        }
    }
    return Error{Code::invalid, "there is no " + what + " \"" + text.substr(0, 60) +
                                    "\" here: write a name that `getent " + (is_user ? "passwd" : "group") +
                                    "` shows, or a number"};
}

}  // namespace maru::daemon
