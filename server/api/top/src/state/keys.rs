//! What keys do.

use super::{HOLD_MS, Mode, Top};
use crate::change::Kind;
use crate::key::{Action, Key};
use crate::row::id;
use crate::view::{PlannedOn, View};

enum Step {
    Up(usize),
    Down(usize),
    First,
    Last,
}

impl Top {
    /// Handles a key at this time, in milliseconds since 1970.
    pub fn handle(&mut self, key: Key, now_ms: i64) -> Action {
        match (self.mode, key) {
            (_, Key::Interrupt) => Action::Quit,
            (Mode::Help, Key::Char('q')) => Action::Quit,
            (Mode::Help, _) => self.enter_mode(Mode::Browse),
            (Mode::Filter, key) => self.edit_filter(key),
            (Mode::Browse, key) => self.browse(key, now_ms),
        }
    }

    fn enter_mode(&mut self, mode: Mode) -> Action {
        self.mode = mode;
        Action::Draw
    }

    fn browse(&mut self, key: Key, now_ms: i64) -> Action {
        let page = self.height.saturating_sub(1).max(1);
        match key {
            Key::Char('q') => Action::Quit,
            Key::Char('?') => self.enter_mode(Mode::Help),
            Key::Char('/') => self.enter_mode(Mode::Filter),
            Key::Char('p') => {
                self.is_paused = !self.is_paused;
                Action::Draw
            }
            Key::Up | Key::Char('k') => self.step(Step::Up(1), now_ms),
            Key::Down | Key::Char('j') => self.step(Step::Down(1), now_ms),
            Key::PageUp => self.step(Step::Up(page), now_ms),
            Key::PageDown => self.step(Step::Down(page), now_ms),
            Key::Home | Key::Char('g') => self.step(Step::First, now_ms),
            Key::End | Key::Char('G') => self.step(Step::Last, now_ms),
            Key::Char('>' | 's') => self.order_by_neighbour(true),
            Key::Char('<') => self.order_by_neighbour(false),
            Key::Char('S') => self.reverse(),
            Key::Enter => self.open(),
            Key::Escape if !self.view().filter.is_empty() => self.set_filter(String::new()),
            Key::Escape | Key::Backspace => self.back(),
            Key::Char('1') => self.show(View::of(Kind::Clusters, None)),
            Key::Char('2') => self.show(View::of(Kind::Nodes, self.view().cluster.clone())),
            Key::Char('3') => self.show(View::of(Kind::Pods, self.view().cluster.clone())),
            Key::Char(_) => Action::Ignore,
            Key::Interrupt => Action::Quit,
        }
    }

    /// The order is kept from now on for a while, so that the next step goes to a row that the operator sees.
    fn step(&mut self, step: Step, now_ms: i64) -> Action {
        let last = self.shown_len().saturating_sub(1);
        let cursor = &mut self.view_mut().cursor;
        cursor.index = match step {
            Step::Up(rows) => cursor.index.saturating_sub(rows),
            Step::Down(rows) => (cursor.index + rows).min(last),
            Step::First => 0,
            Step::Last => last,
        };
        self.select_index();
        self.fit_cursor();
        self.hold_until_ms = now_ms + HOLD_MS;
        Action::Draw
    }

    fn order_by_neighbour(&mut self, is_next: bool) -> Action {
        match self.view().kind {
            Kind::Clusters => self.clusters.order_by_neighbour(is_next),
            Kind::Nodes => self.nodes.order_by_neighbour(is_next),
            Kind::Pods => self.pods.order_by_neighbour(is_next),
        }
        self.must_arrange = true;
        Action::Draw
    }

    fn reverse(&mut self) -> Action {
        match self.view().kind {
            Kind::Clusters => self.clusters.reverse(),
            Kind::Nodes => self.nodes.reverse(),
            Kind::Pods => self.pods.reverse(),
        }
        self.must_arrange = true;
        Action::Draw
    }

    fn edit_filter(&mut self, key: Key) -> Action {
        let mut text = self.view().filter.clone();
        match key {
            Key::Enter => return self.enter_mode(Mode::Browse),
            Key::Escape => {
                self.mode = Mode::Browse;
                text.clear();
            }
            Key::Backspace if text.is_empty() => return self.enter_mode(Mode::Browse),
            Key::Backspace => drop(text.pop()),
            Key::Char(character) => text.push(character),
            _ => return Action::Ignore,
        }
        self.set_filter(text)
    }

    /// A text that is no filter is shown with the reason; the rows stay those of the filter before.
    fn set_filter(&mut self, text: String) -> Action {
        let result = self.read_filter(&text);
        let view = self.view_mut();
        view.filter = text;
        view.filter_error = result.err();
        Action::Draw
    }

    fn read_filter(&mut self, text: &str) -> Result<(), String> {
        self.must_arrange = true;
        match self.view().kind {
            Kind::Clusters => self.clusters.set_filter(text),
            Kind::Nodes => self.nodes.set_filter(text),
            Kind::Pods => self.pods.set_filter(text),
        }
    }

    /// Opens what the selected row has: nodes of a cluster, pods planned on a node.
    fn open(&mut self) -> Action {
        let Some(name) = self.name_at(self.view().cursor.index).map(str::to_owned) else { return Action::Ignore };
        self.select_index();
        let cluster = Some(id(&name, 0).to_owned());
        match self.view().kind {
            Kind::Clusters => self.show(View::of(Kind::Nodes, cluster)),
            Kind::Nodes => {
                let planned_on = self.nodes.table().find(&name).map(PlannedOn::of);
                self.show(View { planned_on, ..View::of(Kind::Pods, cluster) })
            }
            Kind::Pods => Action::Ignore,
        }
    }

    /// Shows a view on top of the others. A view of the same rows that is below is shown as it was left.
    fn show(&mut self, view: View) -> Action {
        match self.views.iter().position(|other| other.is_same_list(&view)) {
            Some(index) => self.views.truncate(index + 1),
            None => self.views.push(view),
        }
        self.enter_view()
    }

    fn back(&mut self) -> Action {
        if self.views.len() == 1 {
            return Action::Ignore;
        }
        self.views.pop();
        self.enter_view()
    }

    /// The rows of a kind have one filter: that of the view that is shown. Where its text is no filter, all rows are shown.
    fn enter_view(&mut self) -> Action {
        let text = self.view().filter.clone();
        if self.view().filter_error.is_some() {
            self.set_filter(String::new());
        }
        self.set_filter(text)
    }
}
