//! Generates clients and servers. Their messages are the types of `fleetwright-proto`.

use protox::Compiler;

/// The files that declare services, of both packages.
const FILES: [&str; 4] = [
    "fleetwright/v1/agent_service.proto",
    "fleetwright/v1/capacity_service.proto",
    "fleetwright/v1/fleet_service.proto",
    "fleetwright/simulation/v1/simulated_cloud.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=../fleetwright");
    println!("cargo::rerun-if-changed=../google");
    let mut compiler = Compiler::new([".."])?;
    compiler.include_source_info(true).include_imports(true).open_files(FILES)?;
    tonic_prost_build::configure()
        // With transport, the constructor of `AgentServiceClient` would have the name of its method: `connect`.
        .build_transport(false)
        .extern_path(".fleetwright.v1", "::fleetwright_proto::v1")
        .extern_path(".fleetwright.simulation.v1", "::fleetwright_proto::simulation::v1")
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
