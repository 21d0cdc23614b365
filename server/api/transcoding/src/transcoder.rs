//! The routes of a descriptor set, which services of any number share.

use std::fmt;
use std::sync::Arc;

use http::Method;
use prost_reflect::DescriptorPool;

use crate::json_cache::JsonCache;
use crate::routes::{RouteError, Routes};

/// HTTP paths of gRPC methods. Clones share the routes and the JSON of the latest messages.
#[derive(Clone)]
pub struct Transcoder {
    routes: Arc<Routes>,
    pool: DescriptorPool,
    json: Arc<JsonCache>,
    answers: Arc<JsonCache>,
    domain: Arc<str>,
}

/// The routes only: the `Debug` of a descriptor does not end when a message contains itself.
impl fmt::Debug for Transcoder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.routes()).finish()
    }
}

impl Transcoder {
    /// Reads the `google.api.http` options of all methods in `descriptor_set`, an encoded
    /// `google.protobuf.FileDescriptorSet` with all imports. `error_domain` is the domain in ErrorInfo of the errors that
    /// are made here, for example `fleetwright.dev`.
    ///
    /// # Errors
    ///
    /// The set is incomplete, an option is wrong or not supported, or two methods have the same path.
    pub fn new(descriptor_set: &[u8], error_domain: &str) -> Result<Self, RouteError> {
        let pool = DescriptorPool::decode(descriptor_set)?;
        Ok(Self {
            routes: Arc::new(Routes::new(&pool)?),
            pool,
            json: Arc::default(),
            answers: Arc::default(),
            domain: error_domain.into(),
        })
    }

    /// The HTTP method, the path template and the full name of the gRPC method of each route.
    pub fn routes(&self) -> impl Iterator<Item = (&Method, &str, &str)> {
        self.routes.list()
    }

    pub(crate) fn table(&self) -> &Routes {
        &self.routes
    }

    pub(crate) fn pool(&self) -> &DescriptorPool {
        &self.pool
    }

    /// The JSON of messages of streams.
    pub(crate) fn json(&self) -> &JsonCache {
        &self.json
    }

    /// The JSON of answers that are one message: many clients poll the same. Apart from that of streams, whose clients do not
    /// wait for it.
    pub(crate) fn answers(&self) -> &JsonCache {
        &self.answers
    }

    pub(crate) fn domain(&self) -> &str {
        &self.domain
    }
}
