// Keys as people write them, and their way back: any text as a key, any bytes as a key's text.
#include "wire/key_text.hpp"
#include "target.hpp"

using namespace maru;
using fuzz::require;

namespace {

void bytes_survive(const std::string& bytes) {
    const std::string text = wire::key_text(bytes);
    const auto back = wire::parse_key(text);
    require(bool(back) && *back == bytes, "a key's text reads back as other bytes");
    require(wire::is_printable(text), "a key's text is not printable");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string input(data, data + size);
    if (!input.empty()) bytes_survive(input);
    if (const auto key = wire::parse_key(input); key && !key->empty()) bytes_survive(*key);
    require(wire::is_printable(wire::printable(input)), "printable text is not printable");
    const auto digits = wire::bytes_of_hex(input);
    require(!digits || wire::hex_of(*digits).size() == input.size(), "hexadecimal digits were lost");
    return 0;
}
