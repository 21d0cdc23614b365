//! Generates the messages without an installed `protoc` and keeps the descriptor set for server reflection.

use std::path::PathBuf;
use std::{env, fs};

use prost_build::Config;
use protox::Compiler;

const FILES: [&str; 11] = [
    "fleetwright/v1/access.proto",
    "fleetwright/v1/agent_service.proto",
    "fleetwright/v1/capacity.proto",
    "fleetwright/v1/capacity_service.proto",
    "fleetwright/v1/cluster.proto",
    "fleetwright/v1/decision_log.proto",
    "fleetwright/v1/fleet.proto",
    "fleetwright/v1/fleet_service.proto",
    "fleetwright/v1/instruction.proto",
    "fleetwright/v1/node_report.proto",
    "fleetwright/v1/pod.proto",
];

/// A package of its own that is not in the descriptor set: only the simulated cloud serves it.
const SIMULATION: [&str; 1] = ["fleetwright/simulation/v1/simulated_cloud.proto"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=fleetwright");
    println!("cargo::rerun-if-changed=google");
    let mut simulation = Compiler::new(["."])?;
    simulation.include_source_info(true).include_imports(true).open_files(SIMULATION)?;
    Config::new().compile_fds(simulation.file_descriptor_set())?;
    let mut compiler = Compiler::new(["."])?;
    compiler.include_source_info(true).include_imports(true).open_files(FILES)?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("fleetwright_descriptor.bin"), compiler.encode_file_descriptor_set())?;
    // Hashes refer to the received message: the pods of a snapshot need no copies of them.
    let hashes = [
        "PodRecord.shape",
        "PodRecord.labels",
        "PodRecord.volume_claims",
        "DaemonSetRecord.shape",
        "DaemonSetRecord.labels",
    ];
    // A change is moved several times between the message and the decoder. The large records are behind a pointer.
    let large = ["pod", "node", "node_claim"];
    let mut config = Config::new();
    config.bytes(hashes.map(|field| format!(".fleetwright.v1.{field}")));
    for record in large {
        config.boxed(format!(".fleetwright.v1.Change.change.{record}"));
    }
    // Every message of a stream has the size of the largest one, and Hello is sent once.
    config.boxed(".fleetwright.v1.Hello.facts");
    config.compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
