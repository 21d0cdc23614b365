//! What is added to an order when it is recorded: launch templates, subnets, images and tags. It is
//! recorded with the order, so that the order can be repeated unchanged after everything else has
//! changed.

use std::collections::BTreeMap;

use cloud::provider::{CloudError, LaunchRequest, Override};
use model::{InstanceTypeName, LaunchTemplateInput, Text};
use serde::{Deserialize, Serialize};

use crate::failure::CREATE_FLEET;
use crate::instance;
use crate::launch_template::{TemplateContent, Unlaunchable, groups};
use crate::subnet_addresses::SubnetAddresses;

/// Parameters of `CreateFleet` that are not in the order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub(crate) struct Terms {
    /// Launch templates, in the order of their first instance types.
    pub(crate) templates: Vec<TemplateTerms>,
    /// Zone to subnet, for the zones of the order.
    pub(crate) subnets: BTreeMap<String, String>,
    /// Tags of the instance, its volumes and the fleet, in request order.
    pub(crate) tags: Vec<(String, String)>,
    /// `Context`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) context: Option<String>,
    /// The reserved instances can be reclaimed by their owner.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) interruptible: bool,
    /// Why the order cannot be launched: code and message. Then the rest is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<(String, String)>,
}

/// A launch template of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TemplateTerms {
    pub(crate) name: String,
    /// Image id; the template has it too.
    pub(crate) image: String,
    /// Instance types that are launched from it.
    pub(crate) instance_types: Vec<String>,
}

/// Terms, and what they refer to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) terms: Terms,
    /// Contents of the templates by name.
    pub(crate) contents: BTreeMap<String, TemplateContent>,
    /// Addresses to take off each subnet of the terms while the launch is under way.
    pub(crate) addresses: i64,
}

impl Resolved {
    /// The terms of `request` at present.
    pub(crate) fn of(
        request: &LaunchRequest,
        input: &LaunchTemplateInput,
        region: &str,
        addresses: &SubnetAddresses,
    ) -> Self {
        match groups(request, input, region) {
            Err(reason) => Self::refused(reason),
            Ok(groups) => {
                let subnets = subnets(request, input, addresses);
                let named: Vec<(String, _)> = groups.into_iter().map(|group| (group.content.name(), group)).collect();
                let template = |(name, group): &(String, crate::launch_template::TemplateGroup)| TemplateTerms {
                    name: name.clone(),
                    image: group.content.image.clone(),
                    instance_types: group.instance_types.iter().map(ToString::to_string).collect(),
                };
                let interruptible = named
                    .iter()
                    .any(|(_, group)| group.content.reservation.as_ref().is_some_and(|target| target.interruptible));
                let terms = Terms {
                    templates: named.iter().map(template).collect(),
                    subnets,
                    tags: instance::tags(request, &input.node_class.tags),
                    context: input.node_class.context.as_deref().map(str::to_owned),
                    interruptible,
                    refused: None,
                };
                let pods = input.instance_types.values().map(|kind| i64::from(kind.max_pods)).min().unwrap_or(0);
                let contents = named.into_iter().map(|(name, group)| (name, group.content)).collect();
                Self { terms, contents, addresses: pods }
            }
        }
    }

    fn refused(reason: Unlaunchable) -> Self {
        let terms = Terms { refused: Some((reason.code.to_owned(), reason.message)), ..Terms::default() };
        Self { terms, contents: BTreeMap::new(), addresses: 0 }
    }
}

/// The best subnet of each zone of the order that has one.
fn subnets(
    request: &LaunchRequest,
    input: &LaunchTemplateInput,
    addresses: &SubnetAddresses,
) -> BTreeMap<String, String> {
    let mut chosen = BTreeMap::new();
    for option in &request.overrides {
        if chosen.contains_key(option.zone.as_ref()) {
            continue;
        }
        let of_zone = input.status.subnets_in(&option.zone).map(|subnet| subnet.id.as_ref());
        if let Some(subnet) = addresses.best(of_zone) {
            chosen.insert(option.zone.to_string(), subnet.to_owned());
        }
    }
    chosen
}

impl Terms {
    /// Decodes recorded terms.
    ///
    /// # Errors
    /// [`CloudError::Refused`] when they are unreadable: other terms could launch a second
    /// instance.
    pub(crate) fn parse(request: &LaunchRequest) -> Result<Self, CloudError> {
        serde_json::from_str(&request.terms).map_err(|error| CloudError::Refused {
            operation: Text::from(CREATE_FLEET),
            code: Text::from("UnreadableTerms"),
            message: format!("what was written down with the order for {} cannot be read: {error}", request.claim),
        })
    }

    pub(crate) fn to_text(&self) -> Text {
        // Strings always serialize.
        Text::from(serde_json::to_string(self).unwrap_or_default())
    }

    /// Zone of `subnet`.
    pub(crate) fn zone_of(&self, subnet: &str) -> Option<&str> {
        self.subnets.iter().find(|(_, id)| id.as_str() == subnet).map(|(zone, _)| zone.as_str())
    }

    pub(crate) fn template_of(&self, instance_type: &InstanceTypeName) -> Option<&TemplateTerms> {
        let launches =
            |template: &&TemplateTerms| template.instance_types.iter().any(|kind| *kind == *instance_type.as_ref());
        self.templates.iter().find(launches)
    }

    /// Whether the option has a subnet and a template.
    pub(crate) fn offers(&self, option: &Override) -> bool {
        self.subnets.contains_key(option.zone.as_ref()) && self.template_of(&option.instance_type).is_some()
    }
}
