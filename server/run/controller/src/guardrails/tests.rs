//! Each guardrail with its sabotage: the same run with the guardrail switched off breaks the
//! property under test.

mod consolidation;
mod cost;
mod drains;
mod drift;
mod events;
mod expiration;
mod fixture;
mod fleet_counters;
mod foreign_taints;
mod freezes;
mod holds;
mod interruptions;
mod moves;
mod node_class_drift;
mod node_report;
mod occupied;
mod opt_in;
mod prices;
mod pure;
mod removals;
mod repairs;
mod reserved;
mod restore;
mod runs;
mod snapshot_acceptance;
mod takeovers;
