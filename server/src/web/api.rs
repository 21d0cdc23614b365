//! The API over HTTP/1.1 and HTTP/2: as JSON under `/v1`, and as gRPC-Web. Both call the gRPC service behind its
//! authorization, in process.

use std::sync::Arc;

use anyhow::Context;
use auth::authorizer::Authorizer;
use auth::middleware::AuthLayer;
use axum::Router;
use field_mask::FieldMaskLayer;
use fleetwright_proto::DESCRIPTOR_SET;
use fleetwright_rpc::v1::capacity_service_server::CapacityServiceServer;
use fleetwright_rpc::v1::fleet_service_server::FleetServiceServer;
use tonic::service::Routes;
use tonic_web::GrpcWebLayer;
use tower::ServiceBuilder;
use transcoding::Transcoder;

use crate::capacity::CapacityApi;
use crate::capacity::error_info::ErrorInfoLayer;
use crate::capacity::errors;

/// Routes of the API.
///
/// # Errors
/// The descriptors have no valid routes, which is an error of this program.
pub(super) fn router(capacity: CapacityApi, authorizer: Arc<Authorizer>) -> anyhow::Result<Router> {
    let fleet = FleetServiceServer::new(capacity.fleet.clone());
    let services = Routes::new(fleet).add_service(CapacityServiceServer::new(capacity)).prepare();
    let masks = FieldMaskLayer::new(DESCRIPTOR_SET).context("the API has no valid descriptors")?;
    let layers = ServiceBuilder::new().layer(ErrorInfoLayer).layer(AuthLayer(authorizer)).layer(masks);
    let service = layers.service(services);
    let transcoder = Transcoder::new(DESCRIPTOR_SET, errors::DOMAIN).context("the API has no valid routes")?;
    let grpc_web = ServiceBuilder::new().layer(GrpcWebLayer::new()).service(service.clone());
    Ok(Router::new()
        .route_service("/v1/{*path}", transcoder.service(service))
        .route_service("/fleetwright.v1.CapacityService/{method}", grpc_web.clone())
        .route_service("/fleetwright.v1.FleetService/{method}", grpc_web))
}
