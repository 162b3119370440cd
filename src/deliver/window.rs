//! The changes after a sink's saved position that were read from the log: pure.
//!
//! They are in no queue. What the sink takes at once needs no row there: the position is saved past
//! it, and after a crash the log still has it. A change that is not done when the position passes it
//! is queued in the same transaction.

use std::collections::{HashSet, VecDeque};

/// A wanted change, and the unwanted ones before it that follow the wanted one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    seq: i64,
    unwanted: i64,
}

/// The changes between the saved position and the last row of the log that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Window {
    /// The saved position.
    position: i64,
    wanted: VecDeque<Mark>,
    /// The last row that was read.
    upto: i64,
    /// The unwanted ones after the last wanted one.
    unwanted: i64,
}

/// The beginning of a window, over which the position moves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) after: i64,
    pub(super) upto: i64,
    /// Those that are not done.
    pub(super) rows: Vec<i64>,
    pub(super) unwanted: i64,
}

impl Window {
    pub(super) fn new(position: i64) -> Self {
        Self {
            position,
            wanted: VecDeque::new(),
            upto: position,
            unwanted: 0,
        }
    }

    /// The last row of the log that was read.
    pub(super) fn upto(&self) -> i64 {
        self.upto
    }

    /// Whether the position is the last row that was read.
    pub(super) fn is_empty(&self) -> bool {
        self.upto == self.position
    }

    /// Whether the sink wants any change between the position and the last row that was read.
    pub(super) fn has_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// The unwanted changes after the last wanted one.
    pub(super) fn unwanted(&self) -> i64 {
        self.unwanted
    }

    /// Adds the rows of the log up to `upto`: the wanted ones, each with the number of unwanted ones
    /// before it, and the number of those after the last one.
    pub(super) fn add(&mut self, wanted: &[(i64, i64)], unwanted: i64, upto: i64) {
        for &(seq, before) in wanted {
            let unwanted = std::mem::take(&mut self.unwanted) + before;
            self.wanted.push_back(Mark { seq, unwanted });
        }
        self.unwanted += unwanted;
        self.upto = upto;
    }

    /// The part up to this row, which is at the end of the window or wanted; `done` are the changes
    /// in it that need no row of the queue.
    pub(super) fn part(&self, upto: i64, done: &HashSet<i64>) -> Part {
        let mut part = Part {
            after: self.position,
            upto,
            rows: Vec::new(),
            unwanted: 0,
        };
        for mark in &self.wanted {
            if mark.seq > upto {
                return part;
            }
            part.unwanted += mark.unwanted;
            if !done.contains(&mark.seq) {
                part.rows.push(mark.seq);
            }
        }
        // Nothing wanted follows.
        part.upto = self.upto;
        part.unwanted += self.unwanted;
        part
    }

    /// Moves the position; false if it leads out of the window, because an operator moved it: then
    /// the window is empty.
    pub(super) fn advance(&mut self, position: i64) -> bool {
        if position == self.position {
            return true;
        }
        while let Some(mark) = self.wanted.front()
            && mark.seq <= position
        {
            self.wanted.pop_front();
        }
        let is_at_end = self.wanted.is_empty() && position == self.upto;
        if is_at_end || position > self.position && position < self.upto {
            self.position = position;
            if is_at_end {
                self.unwanted = 0;
            }
            return true;
        }
        *self = Self::new(position);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows 11 to 20 of the log, of which 13, 14 and 18 are wanted.
    fn window() -> Window {
        let mut window = Window::new(10);
        window.add(&[(13, 2), (14, 0)], 2, 16);
        window.add(&[(18, 1)], 2, 20);
        window
    }

    fn part(window: &Window, upto: i64, done: &[i64]) -> (i64, Vec<i64>, i64) {
        let part = window.part(upto, &done.iter().copied().collect());
        assert_eq!(part.after, window.position);
        (part.upto, part.rows, part.unwanted)
    }

    #[test]
    fn a_part_counts_what_is_unwanted_and_names_what_is_not_done() {
        let window = window();
        assert_eq!(part(&window, 13, &[13]), (13, vec![], 2));
        assert_eq!(part(&window, 14, &[14]), (14, vec![13], 2));
        assert_eq!(part(&window, 18, &[13, 14, 18]), (20, vec![], 7));
        assert_eq!(part(&window, 20, &[]), (20, vec![13, 14, 18], 7));
    }

    #[test]
    fn parts_add_up_to_the_whole_window() {
        let mut window = window();
        let (upto, _, first) = part(&window, 14, &[]);
        assert!(window.advance(upto));
        let (upto, rows, rest) = part(&window, 20, &[]);
        assert_eq!((upto, rows, first + rest), (20, vec![18], 7));
        assert!(window.advance(upto));
        assert!(window.is_empty() && !window.has_wanted());
        window.add(&[], 3, 23);
        assert_eq!(part(&window, 23, &[]), (23, vec![], 3));
    }

    #[test]
    fn a_position_beyond_the_window_empties_it() {
        let mut window = window();
        assert!(!window.advance(40));
        assert_eq!(window, Window::new(40));
    }
}
