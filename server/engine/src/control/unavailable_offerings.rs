//! What is sold out: a refusal in one cluster spares every cluster that buys from the same account and region the same
//! refusal, for a while.

use std::collections::BTreeMap;

use crate::model::offering::SharedCatalogue;
use crate::model::{CapacityType, Offering, Text, Timestamp};

/// How long an offering that was refused is left alone, in milliseconds (Karpenter's AWS provider: three minutes).
pub const SOLD_OUT_MS: i64 = 180_000;

/// One offering of one account and region.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct OfferingKey {
    instance_type: Text,
    zone: Text,
    capacity_type: CapacityType,
}

/// An offering that was refused, and until when it is left alone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnavailableOffering {
    /// Instance type.
    pub instance_type: Text,
    /// Zone.
    pub zone: Text,
    /// How it would have been paid for.
    pub capacity_type: CapacityType,
    /// Not to be tried before.
    pub until: Timestamp,
}

/// Offerings that were refused lately, and catalogues with them marked.
#[derive(Debug, Clone, Default)]
pub struct UnavailableOfferings {
    until: BTreeMap<OfferingKey, Timestamp>,
    /// Refusals that nobody else can know of. One that prolongs another is no news: whoever tries meanwhile is refused too.
    news: Vec<UnavailableOffering>,
    /// Catalogues as they were given and as they are under `until`. The first of each pair is held so that its address
    /// stays its own.
    marked: Vec<(SharedCatalogue, SharedCatalogue)>,
}

impl UnavailableOfferings {
    /// The offering was refused.
    pub fn refuse(&mut self, instance_type: Text, zone: Text, capacity_type: CapacityType, until: Timestamp) {
        let key = OfferingKey { instance_type: instance_type.clone(), zone: zone.clone(), capacity_type };
        if self.until.insert(key, until).is_none() {
            self.news.push(UnavailableOffering { instance_type, zone, capacity_type, until });
        }
        self.marked.clear();
    }

    /// Another process was refused. What is known to last longer does.
    pub fn learn(&mut self, refusals: Vec<UnavailableOffering>) {
        for UnavailableOffering { instance_type, zone, capacity_type, until } in refusals {
            let known = self.until.entry(OfferingKey { instance_type, zone, capacity_type }).or_insert(until);
            *known = (*known).max(until);
        }
        self.marked.clear();
    }

    /// What was refused here since this was last asked.
    pub fn take_news(&mut self) -> Vec<UnavailableOffering> {
        std::mem::take(&mut self.news)
    }

    /// Forgets refusals that are over by `now`.
    pub fn forget_past(&mut self, now: Timestamp) {
        let before = self.until.len();
        self.until.retain(|_, until| *until > now);
        if self.until.len() < before {
            self.marked.clear();
        }
    }

    /// When the next refusal is over.
    #[must_use]
    pub fn next_end(&self) -> Option<Timestamp> {
        self.until.values().min().copied()
    }

    /// How many offerings are sold out.
    #[must_use]
    pub fn len(&self) -> usize {
        self.until.len()
    }

    /// Whether nothing is sold out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.until.is_empty()
    }

    /// Whether the offering was refused lately.
    #[must_use]
    pub fn is_sold_out(&self, instance_type: &Text, zone: &Text, capacity_type: CapacityType) -> bool {
        let key = OfferingKey { instance_type: instance_type.clone(), zone: zone.clone(), capacity_type };
        self.until.contains_key(&key)
    }

    /// `catalogue` with what is sold out marked as not available.
    pub fn mark(&mut self, catalogue: &SharedCatalogue) -> SharedCatalogue {
        if self.until.is_empty() {
            return SharedCatalogue::clone(catalogue);
        }
        if let Some((_, marked)) = self.marked.iter().find(|(base, _)| SharedCatalogue::ptr_eq(base, catalogue)) {
            return SharedCatalogue::clone(marked);
        }
        let mut copy = catalogue.as_ref().clone();
        for kind in &mut copy.types {
            for offering in &mut kind.offerings {
                offering.available &= !self.bars(&kind.name, offering);
            }
        }
        let marked = SharedCatalogue::new(copy);
        self.marked.push((SharedCatalogue::clone(catalogue), SharedCatalogue::clone(&marked)));
        marked
    }

    fn bars(&self, instance_type: &Text, offering: &Offering) -> bool {
        self.is_sold_out(instance_type, &offering.zone, offering.capacity_type)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(zone: &str, until: i64) -> UnavailableOffering {
        let (instance_type, zone) = (Text::from("m5.large"), Text::from(zone));
        UnavailableOffering { instance_type, zone, capacity_type: CapacityType::Spot, until: Timestamp(until) }
    }

    fn refuse(memory: &mut UnavailableOfferings, zone: &str, until: i64) {
        let UnavailableOffering { instance_type, zone, capacity_type, until } = refusal(zone, until);
        memory.refuse(instance_type, zone, capacity_type, until);
    }

    #[test]
    fn a_refusal_is_news_once_and_again_when_it_was_over() {
        let mut memory = UnavailableOfferings::default();
        refuse(&mut memory, "a", 100);
        refuse(&mut memory, "a", 150);
        assert_eq!(memory.take_news(), [refusal("a", 100)]);
        assert_eq!(memory.take_news(), []);
        memory.forget_past(Timestamp(150));
        refuse(&mut memory, "a", 300);
        assert_eq!(memory.take_news(), [refusal("a", 300)]);
    }

    #[test]
    fn what_others_were_refused_is_left_alone_here_and_is_no_news() {
        let mut memory = UnavailableOfferings::default();
        refuse(&mut memory, "a", 200);
        let _told = memory.take_news();
        memory.learn(vec![refusal("a", 100), refusal("b", 100)]);
        memory.forget_past(Timestamp(100));
        let sold_out = |zone: &str| memory.is_sold_out(&"m5.large".into(), &zone.into(), CapacityType::Spot);
        assert!(sold_out("a"), "until 200, as it was refused here");
        assert!(!sold_out("b"), "until 100, which is over");
        assert_eq!(memory.take_news(), []);
    }
}
