//! The budget is kept, and each route is polled within its guarantee.

mod retry_after;
mod virtual_time;
