//! The highest epoch that was obeyed, in an annotation of a Lease object: where it outlives the agent, its node and its namespace's
//! other objects, and where nobody is told of its changes.

use serde_json::{Value, json};

use crate::api::Api;
use crate::error::{ApiError, Kind, gone_is_fine};
use crate::resource::LEASE;

/// The annotation.
const HIGHEST: &str = "fleetwright.dev/highest-epoch";

/// A Lease that changes under our hands is read again so many times.
const TRIES: usize = 10;

/// Where the epoch is kept.
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
    /// [`ApiError`] when it cannot be read, [`Kind::Invalid`] when the annotation is not a number: who wrote it is not known, and
    /// obeying everybody would be the wrong answer.
    pub async fn read(&self) -> Result<u64, ApiError> {
        let lease: Option<Value> = gone_is_fine(self.api.get(&self.path()).await)?;
        lease.map_or(Ok(0), |lease| self.stored(&lease))
    }

    /// Stores `epoch` unless a higher one is stored.
    ///
    /// # Errors
    /// As [`read`](Self::read), and when it cannot be written.
    pub async fn raise(&self, epoch: u64) -> Result<(), ApiError> {
        for attempt in 1.. {
            match self.raise_once(epoch).await {
                Err(error) if matches!(error.kind, Kind::Conflict | Kind::AlreadyExists) && attempt < TRIES => {}
                outcome => return outcome,
            }
        }
        Ok(())
    }

    async fn raise_once(&self, epoch: u64) -> Result<(), ApiError> {
        let annotations = json!({ HIGHEST: epoch.to_string() });
        let Some(lease) = gone_is_fine(self.api.get::<Value>(&self.path()).await)? else {
            let lease = json!({
                "apiVersion": LEASE.api_version(), "kind": LEASE.kind,
                "metadata": { "name": self.name, "namespace": self.namespace, "annotations": annotations },
                "spec": {},
            });
            return self.api.create(&LEASE.within(&self.namespace), &lease).await.map(drop);
        };
        if self.stored(&lease)? >= epoch {
            return Ok(());
        }
        let patch = json!({ "metadata": {
            "resourceVersion": lease.pointer("/metadata/resourceVersion"),
            "annotations": annotations,
        } });
        self.api.patch(&self.path(), &patch).await.map(drop)
    }

    fn path(&self) -> String {
        LEASE.one(&self.namespace, &self.name)
    }

    fn stored(&self, lease: &Value) -> Result<u64, ApiError> {
        let text = lease.pointer("/metadata/annotations").and_then(|annotations| annotations.get(HIGHEST));
        let Some(text) = text.and_then(Value::as_str) else { return Ok(0) };
        text.parse().map_err(|_| ApiError {
            kind: Kind::Invalid,
            ..ApiError::unreachable(
                format!("read {HIGHEST} of Lease {}/{}", self.namespace, self.name),
                format!("{text:?} is not a number; put back the highest epoch of the server's lease on this cluster"),
            )
        })
    }
}
