//! The catalogue file: written by `fleetwright catalogue export`, read by `--catalogue`.
//!
//! ```json
//! {"apiVersion":"fleetwright.dev/v1","kind":"Catalogue",
//!  "regions":[{"name":"rack","zones":["rack-1"]}],
//!  "types":[{"name":"box","labels":{"kubernetes.io/arch":"amd64"},
//!            "capacity":{"cpu":"8","memory":"32Gi"},"overhead":{"memory":"1Gi"},
//!            "offerings":[{"zone":"rack-1","capacityType":"on-demand","priceUsdPerHour":0.25}]}]}
//! ```
//!
//! - `capacity` requires `cpu` and `memory`. Defaults: 110 `pods`, and the NodeClass's disk as
//!   `ephemeral-storage`. `attachable-volumes-<driver>` limits the volumes of a CSI driver.
//! - `overhead` is not allocatable, exactly as written. Without it the kubelet's rules apply
//!   (reserved CPU and memory, eviction thresholds, and the kubelet settings of the NodeClass).
//! - `labels` do not depend on NodeClass or offering. `kubernetes.io/arch` defaults to `amd64`,
//!   `kubernetes.io/os` to `linux`. A label that only other types have is known to be absent.
//! - An offering without `priceUsdPerHour` costs `onDemandUsdPerHour` of its region, else the price
//!   in us-east-1 (or in the first region, where us-east-1 is missing); spot costs a share of
//!   on-demand. Without any of these it is unavailable. `"estimated": true` marks an estimated
//!   price.
//! - A region may set `spotRatio` (spot price as a share of the on-demand price where no spot price
//!   is known; default 0.35) and `priceDate` (the date of its prices).
//! - `onDemandUsdPerHour` (price by region) holds prices of regions whose zones are unknown.

mod read;
mod write;

/// `apiVersion` of the file.
const API_VERSION: &str = "fleetwright.dev/v1";
/// `kind` of the file.
const KIND: &str = "Catalogue";

/// Why a catalogue is unusable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueError {
    /// The embedded data is damaged.
    #[error("the built-in catalogue is damaged in {file}, line {line}; this build cannot be used, install it again")]
    Damaged {
        /// Name of the embedded file.
        file: &'static str,
        /// Line of the data, from 1.
        line: usize,
    },
    /// The file is not JSON.
    #[error("the catalogue is not JSON: {0}; `fleetwright catalogue export` prints an example")]
    NotJson(String),
    /// A field has an invalid value.
    #[error("catalogue, {at}: found {found}; allowed: {allowed}")]
    Field {
        /// Path of the field, with the type's name if known.
        at: String,
        /// The value in the file.
        found: String,
        /// The values that the field may have.
        allowed: String,
    },
}
