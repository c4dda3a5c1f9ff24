//! What the patterns of one definition may take together, wherever they stand in it: in schemas and in expressions.

use std::{cell::RefCell, collections::HashSet};

use super::{MAX_COMPILED, TOO_LARGE, compile};

/// Bytes of all compiled patterns.
const TOTAL: usize = 16 << 20;
/// What each pattern is charged at least, in bytes: to compile a small one takes time as well.
const LEAST: usize = 1 << 10;
/// What each byte of a pattern is charged that is no regular expression: what is read of it takes memory, too.
const SYNTAX: usize = 32;

thread_local! {
    static CURRENT: RefCell<Option<Budget>> = const { RefCell::new(None) };
}

struct Budget {
    left: usize,
    /// What has been charged.
    seen: HashSet<Box<str>>,
}

/// Ends the budget, also when something panics.
struct End(Option<Budget>);

impl Drop for End {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(|current| *current = self.0.take());
    }
}

/// Runs something that checks patterns: those together have one budget, and what goes beyond it is refused without being compiled.
pub(crate) fn within<T>(work: impl FnOnce() -> T) -> T {
    let _end = End(CURRENT.replace(Some(Budget { left: TOTAL, seen: HashSet::new() })));
    work()
}

/// Why a pattern does not compile or goes beyond the budget that it is within, if it is within one.
pub(super) fn check(source: &str) -> Option<String> {
    CURRENT.with_borrow_mut(|current| match current {
        Some(budget) => budget.check(source),
        None => compile(source).err(),
    })
}

impl Budget {
    fn check(&mut self, source: &str) -> Option<String> {
        let too_much =
            || format!("all patterns together are too large: they may take {} MiB when they are compiled", TOTAL >> 20);
        if self.seen.contains(source) {
            return compile(source).err();
        }
        if self.left == 0 {
            return Some(too_much());
        }
        let compiled = compile(source);
        let charge = match &compiled {
            Ok(program) => program.size.max(LEAST),
            // What was not even read.
            Err(_) if source.len() > super::MAX_SOURCE => LEAST,
            // That it is too large shows only when so much has been built.
            Err(why) if why.contains(TOO_LARGE) => MAX_COMPILED,
            Err(_) => (source.len() * SYNTAX).max(LEAST),
        };
        let fits = charge <= self.left;
        self.left = self.left.saturating_sub(charge);
        if fits {
            self.seen.insert(source.into());
        }
        compiled.err().or_else(|| (!fits).then(too_much))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_large_patterns_are_refused_without_being_compiled() {
        let pattern = |n: usize| format!("(a{{900}}){{4}}{n}");
        let accepted = within(|| (0..1000).take_while(|n| check(&pattern(*n)).is_none()).count());
        assert!((10..500).contains(&accepted), "{accepted}");
        within(|| {
            for n in 0..accepted {
                assert_eq!(check(&pattern(n)), None);
            }
            let why = check(&pattern(accepted)).unwrap();
            assert!(why.contains("together are too large"), "{why}");
            assert_eq!(check(&pattern(0)), None, "what was charged is let be");
        });
        assert_eq!(check(&pattern(accepted)), None, "the next has a budget of its own");
    }

    #[test]
    fn what_does_not_compile_is_charged() {
        let refused = |pattern: &dyn Fn(usize) -> String| {
            within(|| (0..1000).filter(|n| check(&pattern(*n)).unwrap().contains("together")).count())
        };
        assert_eq!(refused(&|n| format!("({n}")), 0, "what is small is told as it is");
        assert!((800..1000).contains(&refused(&|n| format!("{}{n}", "(".repeat(4000)))));
        assert!((980..1000).contains(&refused(&|n| format!("(.{{1000}}){{100}}{n}"))));
    }
}
