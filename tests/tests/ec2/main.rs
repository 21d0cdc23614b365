//! The EC2 provider, judged over HTTP by two clouds that it shares no code with: the simulated EC2 (`simulated`) and
//! moto (`moto`). `cargo test -p e2e --test ec2 [-- part of a name]`
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod account;
mod moto;
mod moto_server;
mod offerings;
mod simulated;
