//! Each rail with its sabotage: the same run with the rail's setting off breaks the property that the test is about.

mod belief;
mod drains;
mod freezes;
mod occupied;
mod pure;
mod recall;
mod removals;
mod runs;
mod share;
mod world;
