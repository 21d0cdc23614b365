//! Which rows are shown in which order, before a picture.

use super::Top;
use crate::change::Kind;
use crate::column::Context;
use crate::row::Pod;

impl Top {
    /// Arranges the rows of the view again if they changed and their order is not kept, and moves the cursor to where its row
    /// is. `height` is the number of rows on the screen.
    pub(crate) fn settle(&mut self, height: usize, now_ms: i64) {
        self.height = height.max(1);
        let is_outdated = match self.view().kind {
            Kind::Clusters => self.clusters.is_outdated(),
            Kind::Nodes => self.nodes.is_outdated(),
            Kind::Pods => self.pods.is_outdated(),
        };
        if self.must_arrange || is_outdated && !self.is_held(now_ms) {
            self.arrange(now_ms);
        }
        self.fit_cursor();
    }

    /// The keys of clusters change with nodes, so that clusters are always ordered anew; those of nodes and pods do not.
    fn arrange(&mut self, now_ms: i64) {
        let is_new = std::mem::take(&mut self.must_arrange);
        let Self { clusters, nodes, pods, sums, sources, views, .. } = self;
        let view = &views[views.len() - 1];
        let without_nodes = &sources[Kind::Nodes as usize].unreachable;
        let context = Context { now_ms, sums, without_nodes, is_fleet: view.cluster.is_none() };
        let prefix = view.prefix();
        match view.kind {
            Kind::Clusters => clusters.arrange(&prefix, |_| true, &context),
            Kind::Nodes if is_new => nodes.arrange(&prefix, |_| true, &context),
            Kind::Nodes => nodes.arrange_changed(&prefix, |_| true, &context),
            Kind::Pods => {
                let planned_on = view.planned_on.as_ref();
                let in_scope = |pod: &Pod| planned_on.is_none_or(|on| on.has(pod));
                if is_new {
                    pods.arrange(&prefix, in_scope, &context);
                } else {
                    pods.arrange_changed(&prefix, in_scope, &context);
                }
            }
        }
        self.forget_hidden_orders();
        let position = self.view().cursor.selected.as_ref().and_then(|name| self.position(name));
        self.view_mut().cursor.follow(position);
        self.fit_cursor();
        if position.is_none() && self.view().cursor.selected.is_some() {
            self.select_index();
        }
    }

    /// Rows that are gone are kept for the view only whose order may be kept.
    fn forget_hidden_orders(&mut self) {
        let shown = self.view().kind;
        if shown != Kind::Clusters {
            self.clusters.forget_order();
        }
        if shown != Kind::Nodes {
            self.nodes.forget_order();
        }
        if shown != Kind::Pods {
            self.pods.forget_order();
        }
    }

    /// The row at the cursor is the selected one from now on.
    pub(super) fn select_index(&mut self) {
        let selected = self.name_at(self.view().cursor.index).map(str::to_owned);
        self.view_mut().cursor.selected = selected;
    }

    pub(super) fn fit_cursor(&mut self) {
        let (len, height) = (self.shown_len(), self.height);
        self.view_mut().cursor.fit(len, height);
    }

    /// Number of rows that the view has.
    pub(crate) fn shown_len(&self) -> usize {
        match self.view().kind {
            Kind::Clusters => self.clusters.len(),
            Kind::Nodes => self.nodes.len(),
            Kind::Pods => self.pods.len(),
        }
    }

    pub(crate) fn name_at(&self, index: usize) -> Option<&str> {
        match self.view().kind {
            Kind::Clusters => self.clusters.name_at(index),
            Kind::Nodes => self.nodes.name_at(index),
            Kind::Pods => self.pods.name_at(index),
        }
    }

    fn position(&self, name: &str) -> Option<usize> {
        match self.view().kind {
            Kind::Clusters => self.clusters.position(name),
            Kind::Nodes => self.nodes.position(name),
            Kind::Pods => self.pods.position(name),
        }
    }
}
