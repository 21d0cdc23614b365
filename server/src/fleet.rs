//! `FleetService`: the fleet for people and programs, over gRPC. It reads views and changes nothing.

mod encode;

use std::pin::Pin;
use std::time::Duration;

use fleetwright_proto::v1;
use fleetwright_proto::v1::fleet_service_server::FleetService;
use futures::{Stream, StreamExt};
use tonic::{Request, Response, Status};

use crate::pace;
use crate::views::Views;

/// Views follow each other at least this far apart, whatever a watcher asks for.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// The service.
#[derive(Debug, Clone)]
pub(crate) struct Fleet {
    views: Views,
}

impl Fleet {
    pub(crate) fn new(views: Views) -> Self {
        Self { views }
    }
}

#[tonic::async_trait]
impl FleetService for Fleet {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::WatchResponse, Status>> + Send>>;

    async fn list_clusters(
        &self,
        _request: Request<v1::ListClustersRequest>,
    ) -> Result<Response<v1::ListClustersResponse>, Status> {
        let view = self.views.borrow().clone();
        let clusters = view.clusters.values().map(|cluster| encode::summary(cluster)).collect();
        Ok(Response::new(v1::ListClustersResponse { clusters }))
    }

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let v1::WatchRequest { cluster_name, min_interval_ms } = request.into_inner();
        let interval = Duration::from_millis(min_interval_ms.into()).max(INTERVAL_MIN);
        let views = pace::views(self.views.clone(), interval);
        Ok(Response::new(views.map(move |view| Ok(encode::watch_response(&view, &cluster_name))).boxed()))
    }
}
