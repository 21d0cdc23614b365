//! Keys, and what follows from one.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    /// Esc.
    Escape,
    Backspace,
    Char(char),
    /// Ctrl-C.
    Interrupt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The picture changed.
    Draw,
    /// The key has no meaning here.
    Ignore,
    /// The program ends.
    Quit,
}
