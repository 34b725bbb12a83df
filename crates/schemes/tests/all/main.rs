//! What schemes do, each by itself: requests and what they cost, the papers' examples, rebuilding,
//! volumes.
//! One program, because each would be compiled with all of the arrays.

mod alternate_heal;
mod alternate_replace;
mod alternate_requests;
mod alternate_return;
mod alternate_torn;
mod battery;
mod cached_raid5_destage;
mod cached_raid5_requests;
mod every_scheme;
mod hpda_requests;
mod hybrid_requests;
mod hybrid_room;
mod log_mirror_rebuild;
mod log_mirror_requests;
mod log_requests;
mod mirror_log_return;
mod mirror_log_rot;
mod mirror_log_scrub;
mod out_of_date;
mod page_map;
mod pool;
mod returning;
mod scrub;
mod steering_rebuild;
mod steering_requests;
mod steering_return;
mod steering_spare;
mod table_kept;
mod volumes;
mod zeroed;
