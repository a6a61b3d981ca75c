#include "status.hpp"

namespace dsanalyze {

std::string_view status_name(StatusCode code) {
  switch (code) {
    case StatusCode::ok:
      return "ok";
    case StatusCode::busy:
      return "busy";
    case StatusCode::not_found:
      return "not_found";
    case StatusCode::corrupt:
      return "corrupt";
    case StatusCode::unsupported:
      return "unsupported";
    case StatusCode::timeout:
      return "timeout";
    case StatusCode::end:
      return "end";
    case StatusCode::cancelled:
      return "cancelled";
    case StatusCode::io:
      return "io";
  }
  return "unknown";
}

}  // namespace dsanalyze
