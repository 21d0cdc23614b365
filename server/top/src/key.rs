//! Keys, and what follows from one.

/// A key of the keyboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// Arrow up.
    Up,
    /// Arrow down.
    Down,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// Home.
    Home,
    /// End.
    End,
    /// Enter.
    Enter,
    /// Esc.
    Escape,
    /// Backspace.
    Backspace,
    /// A character.
    Char(char),
    /// Ctrl-C.
    Interrupt,
}

/// What follows from a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The picture changed.
    Draw,
    /// The key has no meaning here.
    Ignore,
    /// The program ends.
    Quit,
}
