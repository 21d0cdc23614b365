//! The parameters that settings add to an order. They are recorded with the order, so that it can
//! be repeated unchanged after settings have changed.

use std::collections::{BTreeMap, BTreeSet};

use cloud::provider::{CloudError, LaunchRequest};
use model::Text;
use serde::{Deserialize, Serialize};

use crate::failure::CREATE_FLEET;
use crate::instance;
use crate::settings::Settings;

/// Parameters of `CreateFleet` that are not in the order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Terms {
    /// Name of the launch template.
    pub(crate) template: String,
    /// Version of the launch template.
    pub(crate) version: String,
    /// Zone to subnet, for the zones of the order.
    pub(crate) subnets: BTreeMap<String, String>,
    /// Tags of the instance and its volumes, in request order.
    pub(crate) tags: Vec<(String, String)>,
}

impl Terms {
    /// The parameters that `settings` add to `request` at present.
    pub(crate) fn resolve(request: &LaunchRequest, settings: &Settings) -> Self {
        let zones: BTreeSet<&str> = request.overrides.iter().map(|option| option.zone.as_ref()).collect();
        let of_order = settings.subnets.iter().filter(|(zone, _)| zones.contains(zone.as_str()));
        Self {
            template: settings.template.name.clone(),
            version: settings.template.version.clone(),
            subnets: of_order.map(|(zone, subnet)| (zone.clone(), subnet.clone())).collect(),
            tags: instance::tags(request),
        }
    }

    /// The recorded terms of the order; without any, the parameters that `settings` add at present.
    ///
    /// # Errors
    /// [`CloudError::Refused`] when they are unreadable: other terms could launch a second
    /// instance.
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

    /// Encodes the terms.
    pub(crate) fn to_text(&self) -> Text {
        // Strings always serialize.
        Text::from(serde_json::to_string(self).unwrap_or_default())
    }

    /// Zone of `subnet`.
    pub(crate) fn zone_of(&self, subnet: &str) -> Option<&str> {
        self.subnets.iter().find(|(_, id)| id.as_str() == subnet).map(|(zone, _)| zone.as_str())
    }
}
