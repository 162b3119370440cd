//! The budget is kept, and each route is polled within its guarantee.

mod virtual_time;
