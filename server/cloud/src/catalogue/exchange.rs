//! The catalogue as a file: what `fleetwright catalogue export` prints and `--catalogue` reads.
//!
//! ```json
//! {"apiVersion":"fleetwright.dev/v1","kind":"Catalogue",
//!  "regions":[{"name":"rack","zones":["rack-1"]}],
//!  "types":[{"name":"box","labels":{"kubernetes.io/arch":"amd64"},
//!            "capacity":{"cpu":"8","memory":"32Gi"},"overhead":{"memory":"1Gi"},
//!            "offerings":[{"zone":"rack-1","capacityType":"on-demand","priceUsdPerHour":0.25}]}]}
//! ```
//!
//! - `capacity` needs `cpu` and `memory`. Without `pods` a machine takes 110; without `ephemeral-storage` it has the NodeClass's
//!   disk. `attachable-volumes-<driver>` limits the volumes of a CSI driver.
//! - `overhead` is what pods cannot use, exactly as written. Without it the kubelet's own rules decide (reserved CPU and memory,
//!   eviction thresholds, and what the NodeClass says about them).
//! - `labels` are those that do not depend on NodeClass or offering. `kubernetes.io/arch` defaults to `amd64`,
//!   `kubernetes.io/os` to `linux`. A label that other types have and one lacks, that one is known not to have.
//! - An offering without `priceUsdPerHour` costs what `onDemandUsdPerHour` says for its region, else what the type costs in
//!   us-east-1 (or in the first region, where us-east-1 is not there); spot costs a share of on-demand. When none of these is
//!   known it cannot be bought. `"estimated": true` marks a price that is an estimate.
//! - A region may say `spotRatio` (spot price as a share of the on-demand price where no spot price is known; 0.35 without it) and
//!   `priceDate` (the day that its prices are of).
//! - `onDemandUsdPerHour` (price by region) holds prices of regions whose zones are not known.

mod read;
mod write;

use serde_json::Value;

use super::snapshot::Snapshot;

/// `apiVersion` of the file.
const API_VERSION: &str = "fleetwright.dev/v1";
/// `kind` of the file.
const KIND: &str = "Catalogue";

/// Why a catalogue cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueError {
    /// The data inside the program are not what the program expects.
    #[error("the built-in catalogue is damaged in {file}, line {line}; this build cannot be used, install it again")]
    Damaged {
        /// Which of the files.
        file: &'static str,
        /// Line of the data, from 1.
        line: usize,
    },
    /// The file is not JSON.
    #[error("the catalogue is not JSON: {0}; `fleetwright catalogue export` prints an example")]
    NotJson(String),
    /// A field holds what it must not hold.
    #[error("catalogue, {at}: found {found}; allowed: {allowed}")]
    Field {
        /// Path of the field, with the type's name where there is one.
        at: String,
        /// What is there.
        found: String,
        /// What may be there.
        allowed: String,
    },
}

impl Snapshot {
    /// Reads a catalogue file (`kind: Catalogue`), exported or made by hand; see [`exchange`](self) for the format.
    ///
    /// # Errors
    /// [`CatalogueError`] names the type, the field, what was found and what is allowed.
    pub fn parse(bytes: &[u8]) -> Result<Self, CatalogueError> {
        read::parse(bytes)
    }

    /// The catalogue as a file that [`Snapshot::parse`] reads: prices of every region with known zones, capacity and
    /// overhead as the default NodeClass has them.
    #[must_use]
    pub fn export(&self) -> Value {
        write::export(self)
    }
}
