//! Generates clients and servers. Their messages are the types of `fleetwright-proto`.

use prost_build::{Config, Service, ServiceGenerator};
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
    // With transport, the constructor of `AgentServiceClient` would have the name of its method: `connect`.
    let tonic = tonic_prost_build::configure().build_transport(false).service_generator();
    Config::new()
        .service_generator(Box::new(Services(tonic)))
        .extern_path(".fleetwright.v1", "::fleetwright_proto::v1")
        .extern_path(".fleetwright.simulation.v1", "::fleetwright_proto::simulation::v1")
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}

/// What tonic generates, and a macro for the service with many methods.
struct Services(Box<dyn ServiceGenerator>);

impl ServiceGenerator for Services {
    fn generate(&mut self, service: Service, out: &mut String) {
        if service.name == "FleetService" {
            out.push_str(&forwarding(&service));
        }
        self.0.generate(service, out);
    }
}

/// The macro `forward_fleet_service!`, described at the head of `lib.rs`.
fn forwarding(service: &Service) -> String {
    let mut body = String::new();
    for method in &service.methods {
        let (name, input, output) = (&method.name, &method.input_type, &method.output_type);
        let answer = if method.server_streaming {
            let stream = format!("{}Stream", method.proto_name);
            body += &format!("type {stream} = ::tonic::codegen::BoxStream<{output}>;\n");
            format!("Self::{stream}")
        } else {
            output.clone()
        };
        body += &format!(
            "async fn {name}(&self, request: ::tonic::Request<{input}>)
                -> ::std::result::Result<::tonic::Response<{answer}>, ::tonic::Status> {{
                let access = <$access>::of(&request)?;
                self.{name}_now(request.into_inner(), &access).await.map(::tonic::Response::new)
            }}\n"
        );
    }
    format!(
        "#[macro_export]
        macro_rules! forward_fleet_service {{
            ($api:ty, $access:ty) => {{
                #[::tonic::async_trait]
                impl $crate::v1::fleet_service_server::FleetService for $api {{ {body} }}
            }};
        }}\n"
    )
}
