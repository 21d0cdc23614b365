//! Each rail with its sabotage: the same run with the rail's setting off breaks the property that the test is about.

mod belief;
mod drains;
mod fleet_counters;
mod freezes;
mod occupied;
mod pure;
mod removals;
mod restore;
mod runs;
mod world;
