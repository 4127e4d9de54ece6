//! Elements by numbers that this crate gave them.

use std::any::type_name;

/// Access by a number that stands for an element of this list by construction, as checked where the list was made.
pub(crate) trait Numbered<T> {
    /// The element of a number.
    ///
    /// # Panics
    /// When there is none, which is an error of this crate: a default in its place would hide it in a plan.
    fn at(&self, number: usize) -> &T;

    /// As [`Numbered::at`], to change it.
    ///
    /// # Panics
    /// As [`Numbered::at`].
    fn at_mut(&mut self, number: usize) -> &mut T;
}

impl<T> Numbered<T> for [T] {
    #[track_caller]
    fn at(&self, number: usize) -> &T {
        match self.get(number) {
            Some(element) => element,
            None => not_numbered::<T>(number, self.len()),
        }
    }

    #[track_caller]
    fn at_mut(&mut self, number: usize) -> &mut T {
        let len = self.len();
        match self.get_mut(number) {
            Some(element) => element,
            None => not_numbered::<T>(number, len),
        }
    }
}

#[cold]
#[track_caller]
#[expect(clippy::panic, reason = "a broken invariant of this crate")]
fn not_numbered<T>(number: usize, len: usize) -> ! {
    let name = type_name::<T>();
    panic!(
        "invariant: each number in use is that of an element, but {number} is not: {len} x {name}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(
        expected = "invariant: each number in use is that of an element, but 2 is not: 2 x u64"
    )]
    fn a_number_without_an_element_names_the_invariant() {
        [1_u64, 2].at(2);
    }

    #[test]
    fn elements_have_their_numbers() {
        let mut list = vec![1, 2];
        *list.at_mut(1) += *list.at(0);
        assert_eq!(list, [1, 3]);
    }
}
