#include "orderflow/order.h"

namespace twinrail::orderflow {

std::string_view name_of(OrderType type) {
  switch (type) {
    case OrderType::add:
      return "add";
    case OrderType::cancel:
      return "cancel";
    case OrderType::execute:
      return "execute";
  }
  return "?";
}

std::string_view name_of(Side side) {
  switch (side) {
    case Side::none:
      return "";
    case Side::buy:
      return "buy";
    case Side::sell:
      return "sell";
  }
  return "?";
}

std::string_view name_of(AnswerStatus status) {
  switch (status) {
    case AnswerStatus::rested:
      return "rested";
    case AnswerStatus::partially_filled:
      return "partially_filled";
    case AnswerStatus::filled:
      return "filled";
    case AnswerStatus::cancelled:
      return "cancelled";
    case AnswerStatus::no_liquidity:
      return "no_liquidity";
    case AnswerStatus::rejected:
      return "rejected";
  }
  return "?";
}

std::string_view name_of(RejectReason reason) {
  switch (reason) {
    case RejectReason::none:
      return "none";
    case RejectReason::duplicate_id:
      return "duplicate_id";
    case RejectReason::unknown_id:
      return "unknown_id";
    case RejectReason::zero_id:
      return "zero_id";
    case RejectReason::zero_price:
      return "zero_price";
    case RejectReason::zero_quantity:
      return "zero_quantity";
    case RejectReason::bad_type:
      return "bad_type";
    case RejectReason::bad_side:
      return "bad_side";
    case RejectReason::book_full:
      return "book_full";
  }
  return "?";
}

}  // namespace twinrail::orderflow
