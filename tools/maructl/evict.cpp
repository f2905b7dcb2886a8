// Objects that an administrator has evicted.
#include <unistd.h>

#include <string>

#include "commands.hpp"
#include "daemon.hpp"
#include "fields.hpp"
#include "output.hpp"

namespace maru::ctl {
namespace {

struct Sum {
    std::uint64_t objects = 0, bytes = 0, pinned = 0, pinned_bytes = 0;
};

std::string text_of(std::uint64_t objects, std::uint64_t bytes) {
    return std::to_string(objects) + (objects == 1 ? " object, " : " objects, ") + format_size(bytes);
}

/// Slice by slice, so that the daemon serves others meanwhile. What went before an error is in `sum`.
Result<void> run(Daemon* daemon, const EvictWish& wish, bool dry_run, Sum* sum) {
    Json asked{{"dry_run", dry_run}};
    if (wish.name_space) asked["namespace"] = *wish.name_space;
    if (wish.older_than_s != 0) asked["older_than_s"] = wish.older_than_s;
    std::uint64_t round = 0;
    while (true) {
        if (wish.bytes != 0) asked["bytes"] = wish.bytes - sum->bytes;
        const auto part = daemon->ask("evict", asked);
        if (!part) return part.error();
        if (number(*part, "round") != round) sum->pinned = sum->pinned_bytes = 0;  // met for the second time
        round = number(*part, "round");
        sum->objects += number(*part, "objects");
        sum->bytes += number(*part, "bytes");
        sum->pinned += number(*part, "pinned", "objects");
        sum->pinned_bytes += number(*part, "pinned", "bytes");
        const auto& next = field(*part, "next");
        if (next.is_null() || (wish.bytes != 0 && sum->bytes >= wish.bytes)) return {};
        if (!next.is_number_unsigned() || next.get<std::uint64_t>() <= number(asked, "cursor"))
            return Error{Code::version, "the daemon's answer to \"evict\" is not understood"};
        asked["cursor"] = next;
    }
}

bool agreed_to_evict(const Sum& sum) {
    return agreed("This evicts " + text_of(sum.objects, sum.bytes) + ". Go on?");
}

void say(const Options& options, const Sum& sum, bool dry_run) {
    if (options.json) {
        const Json answer{{"objects", sum.objects},
                          {"bytes", sum.bytes},
                          {"pinned", {{"objects", sum.pinned}, {"bytes", sum.pinned_bytes}}},
                          {"dry_run", dry_run}};
        return print(answer.dump(2) + "\n");
    }
    print((dry_run ? "would evict " : "evicted ") + text_of(sum.objects, sum.bytes) +
          (sum.pinned == 0 ? std::string()
                           : "; pinned or being read, and kept: " + text_of(sum.pinned, sum.pinned_bytes)) +
          "\n");
}

}  // namespace

int evict_objects(const Options& options, const EvictWish& wish, bool yes, bool dry_run) {
    auto daemon = Daemon::find(options.socket);
    if (!daemon) return fail(daemon.error(), exit_cannot);
    Sum sum;
    if (!dry_run && !yes) {
        if (::isatty(STDIN_FILENO) == 0)
            return fail({Code::invalid, "not evicted: say -y, or --dry-run to see what would go"}, exit_no);
        if (const auto counted = run(&*daemon, wish, true, &sum); !counted)
            return fail(counted.error(), exit_no);
        if (!agreed_to_evict(sum)) return exit_no;
        sum = {};
    }
    if (const auto done = run(&*daemon, wish, dry_run, &sum); !done) {
        const std::string gone =
            dry_run || sum.objects == 0 ? "" : "; evicted before: " + text_of(sum.objects, sum.bytes);
        return fail({done.error().code, done.error().text + gone}, exit_no);
    }
    say(options, sum, dry_run);
    if (wish.bytes == 0 || sum.bytes >= wish.bytes) return exit_done;
    return fail({Code::full, "less than the " + format_size(wish.bytes) +
                                 " asked for: the rest is pinned, being "
                                 "read, or not there"},
                exit_no);
}

}  // namespace maru::ctl
