// Pages whose memory turned out bad: out of use until a repair.
#pragma once

#include "table/worker.hpp"

namespace maru::table {

/// Takes the object of a view, whose bytes cannot be read, out of the index and its page to BAD; its key can
/// be stored again, elsewhere. False when the object is held by a key pin or has gone already. The view's
/// lease stays the caller's to release.
bool poison_object(Worker& worker, const View& view);

/// Takes a page that this worker has reserved, and that cannot be written, to BAD; the handle is done with.
bool poison_page(Worker& worker, const Page& page);

}  // namespace maru::table
