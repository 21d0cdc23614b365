//! What settings add to an order: written down with it, so that it can be sent again as it was although settings have changed.

use std::collections::{BTreeMap, BTreeSet};

use cloud::provider::{CloudError, LaunchRequest};
use engine::model::Text;
use serde::{Deserialize, Serialize};

use crate::machine;
use crate::request::CREATE_FLEET;
use crate::settings::Settings;

/// Everything of a `CreateFleet` that is not in the order itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Terms {
    /// Name of the launch template.
    pub(crate) template: String,
    /// Its version.
    pub(crate) version: String,
    /// Zone to subnet, for the zones of the order.
    pub(crate) subnets: BTreeMap<String, String>,
    /// Tags of the machine and its volumes, in the order in which they are sent.
    pub(crate) tags: Vec<(String, String)>,
}

impl Terms {
    /// What `settings` add to `request` now.
    pub(crate) fn resolve(request: &LaunchRequest, settings: &Settings) -> Self {
        let zones: BTreeSet<&str> = request.overrides.iter().map(|option| option.zone.as_ref()).collect();
        let of_order = settings.subnets.iter().filter(|(zone, _)| zones.contains(zone.as_str()));
        Self {
            template: settings.template.name.clone(),
            version: settings.template.version.clone(),
            subnets: of_order.map(|(zone, subnet)| (zone.clone(), subnet.clone())).collect(),
            tags: machine::tags(request),
        }
    }

    /// Those that were written down with the order; what `settings` add now when none were.
    ///
    /// # Errors
    /// [`CloudError::Refused`] when they cannot be read: sending other ones could buy a second machine.
    pub(crate) fn of(request: &LaunchRequest, settings: &Settings) -> Result<Self, CloudError> {
        if request.terms.is_empty() {
            return Ok(Self::resolve(request, settings));
        }
        serde_json::from_str(&request.terms).map_err(|error| CloudError::Refused {
            operation: Text::from(CREATE_FLEET),
            code: Text::from("UnreadableTerms"),
            message: format!("what was written down with the order for {} cannot be read: {error}", request.claim),
        })
    }

    /// As they are written down.
    pub(crate) fn to_text(&self) -> Text {
        // Texts alone, which always have a JSON.
        Text::from(serde_json::to_string(self).unwrap_or_default())
    }

    /// The zone whose machines go into `subnet`.
    pub(crate) fn zone_of(&self, subnet: &str) -> Option<&str> {
        self.subnets.iter().find(|(_, id)| id.as_str() == subnet).map(|(zone, _)| zone.as_str())
    }
}
