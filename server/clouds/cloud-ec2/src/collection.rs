//! Deletes launch templates that nothing uses: a region holds 5,000 of them, and every change of an image or label makes
//! new ones.
//!
//! Deleting one that a launch is about to use costs that launch another attempt, which makes the template again. So a
//! process deletes what it has not used for an hour, and what an earlier process left for the clusters that this one
//! serves, and nothing else.

use aws_sdk_ec2::types::{LaunchTemplate, Tag};
use cloud::provider::CloudError;
use model::{Millis, Timestamp};

use crate::failure::{Failure, TEMPLATE_NOT_FOUND};
use crate::instance::CLUSTER_UID;
use crate::provider::{Ec2Cloud, managed_filter};

const DELETE_TEMPLATE: &str = "DeleteLaunchTemplate";
const DESCRIBE_TEMPLATES: &str = "DescribeLaunchTemplates";

/// Page size, EC2's maximum.
const PAGE: i32 = 200;

/// A template that another process made less than this ago may be on its way into a launch.
const MIN_AGE: Millis = Millis::from_hours(1);

impl Ec2Cloud {
    /// Deletes unused launch templates, and returns their names.
    ///
    /// # Errors
    /// The first failure; the other templates are deleted at the next call.
    pub async fn collect_launch_templates(&self) -> Result<Vec<String>, CloudError> {
        let now = self.now();
        let mut unused = self.launches.idle_templates(now);
        if self.launches.is_listing_of_templates_due(now) {
            let listed = self.list_templates().await?;
            unused.extend(listed.iter().filter(|one| self.is_left_behind(one, now)).filter_map(name));
        }
        for name in &unused {
            self.launches.forget_template(name);
            let sent = self.client().delete_launch_template().launch_template_name(name).send().await;
            match sent.map_err(|error| Failure::read(DELETE_TEMPLATE, &error)) {
                Ok(_) => {}
                Err(failure) if failure.is(TEMPLATE_NOT_FOUND) => {}
                Err(failure) => return Err(failure.of_call()),
            }
        }
        Ok(unused)
    }

    async fn list_templates(&self) -> Result<Vec<LaunchTemplate>, CloudError> {
        let call = self.client().describe_launch_templates().filters(managed_filter()).max_results(PAGE);
        let found = call.into_paginator().items().send().try_collect().await;
        found.map_err(|error| Failure::read(DESCRIBE_TEMPLATES, &error).of_call())
    }

    /// Whether an earlier process made the template for a cluster that this one serves.
    fn is_left_behind(&self, template: &LaunchTemplate, now: Timestamp) -> bool {
        let created = template.create_time().and_then(|at| at.to_millis().ok()).map(Timestamp::from_millis);
        let is_old = created.is_some_and(|created| now.duration_since(created) >= MIN_AGE);
        let of_cluster = |tag: &&Tag| tag.key() == Some(CLUSTER_UID);
        let uid = template.tags().iter().find(of_cluster).and_then(Tag::value).filter(|uid| !uid.is_empty());
        let is_served = uid.is_some_and(|uid| self.launches.serves_cluster(uid, now));
        is_old && is_served && name(template).is_some_and(|name| !self.launches.is_template_known(&name))
    }
}

fn name(template: &LaunchTemplate) -> Option<String> {
    template.launch_template_name().map(str::to_owned)
}
