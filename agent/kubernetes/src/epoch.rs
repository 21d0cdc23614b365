//! The highest accepted epoch, in an annotation of a Lease object: it outlives the agent, its node
//! and the other objects of its namespace, and its changes notify no watcher.

use serde_json::{Value, json};

use crate::api::Api;
use crate::error::{ApiError, ErrorKind, ok_if_not_found};
use crate::lease_access;
use crate::resource::LEASE;

/// Annotation of the Lease with the highest accepted epoch, as a decimal number.
const EPOCH_ANNOTATION: &str = "fleetwright.dev/highest-epoch";

/// Maximum number of attempts to write a Lease that changes concurrently.
const MAX_ATTEMPTS: usize = 10;

#[derive(Clone)]
pub struct EpochStore {
    api: Api,
    namespace: String,
    name: String,
}

impl EpochStore {
    /// A store in the Lease of this name.
    #[must_use]
    pub fn new(api: Api, namespace: String, name: String) -> Self {
        Self { api, namespace, name }
    }

    /// The highest epoch; 0 when none was stored.
    ///
    /// # Errors
    /// [`ApiError`] when it cannot be read, [`ErrorKind::Invalid`] when the annotation is not a
    /// number: its author is unknown, and accepting every server would be unsafe.
    pub async fn read_epoch(&self) -> Result<u64, ApiError> {
        let lease: Option<Value> = ok_if_not_found(self.api.get(&self.path()).await)?;
        lease.map_or(Ok(0), |lease| self.parse_epoch(&lease))
    }

    /// Stores `epoch` unless a higher one is stored.
    ///
    /// # Errors
    /// As [`read`](Self::read_epoch), and when it cannot be written.
    pub async fn raise_epoch(&self, epoch: u64) -> Result<(), ApiError> {
        for attempt in 1.. {
            match self.try_raise_epoch(epoch).await {
                Err(error)
                    if matches!(error.kind, ErrorKind::Conflict | ErrorKind::AlreadyExists)
                        && attempt < MAX_ATTEMPTS => {}
                outcome => return outcome,
            }
        }
        Ok(())
    }

    async fn try_raise_epoch(&self, epoch: u64) -> Result<(), ApiError> {
        let annotations = json!({ EPOCH_ANNOTATION: epoch.to_string() });
        let Some(lease) = ok_if_not_found(self.api.get::<Value>(&self.path()).await)? else {
            let lease = json!({
                "apiVersion": LEASE.api_version(), "kind": LEASE.kind,
                "metadata": { "name": self.name, "namespace": self.namespace, "annotations": annotations },
                "spec": {},
            });
            return self.api.create(&LEASE.within(&self.namespace), &lease).await.map(drop);
        };
        if self.parse_epoch(&lease)? >= epoch {
            return Ok(());
        }
        let patch = json!({ "metadata": {
            "resourceVersion": lease.pointer("/metadata/resourceVersion"),
            "annotations": annotations,
        } });
        self.api.patch(&self.path(), &patch).await.map(drop)
    }

    /// What the operator has to do about an error of this store, when the error shows it.
    pub(crate) fn remedy(&self, error: &ApiError) -> Option<String> {
        lease_access::remedy(&self.namespace, &self.name, error)
    }

    fn path(&self) -> String {
        LEASE.one(&self.namespace, &self.name)
    }

    fn parse_epoch(&self, lease: &Value) -> Result<u64, ApiError> {
        let text = lease.pointer("/metadata/annotations").and_then(|annotations| annotations.get(EPOCH_ANNOTATION));
        let Some(text) = text.and_then(Value::as_str) else { return Ok(0) };
        text.parse().map_err(|_| ApiError {
            kind: ErrorKind::Invalid,
            ..ApiError::unreachable(
                format!("read {EPOCH_ANNOTATION} of Lease {}/{}", self.namespace, self.name),
                format!("{text:?} is not a number; set the annotation to the highest epoch of the server's lease on this cluster"),
            )
        })
    }
}
