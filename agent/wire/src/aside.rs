//! Values that are closed aside wherever they are dropped.

use std::any::Any;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use crate::Closer;

/// A value that goes to a closer when it is dropped.
#[derive(Debug)]
pub struct Aside<T: Send + 'static> {
    /// The value, until the drop.
    value: Option<T>,
    keeps: Option<Box<dyn Any + Send + Sync>>,
    closer: Closer,
}

impl<T: Send + 'static> Aside<T> {
    /// A value that `closer` closes.
    pub fn new(value: T, closer: &Closer) -> Self {
        Self {
            value: Some(value),
            keeps: None,
            closer: closer.clone(),
        }
    }

    /// Keeps `permit` until the value is closed, in place of the value kept before.
    pub fn keep(&mut self, permit: impl Any + Send + Sync) {
        self.keeps = Some(Box::new(permit));
    }
}

impl<T: Send + 'static> Drop for Aside<T> {
    fn drop(&mut self) {
        // In this order.
        self.closer.close((self.value.take(), self.keeps.take()));
    }
}

#[expect(clippy::expect_used, reason = "only the drop takes the value")]
impl<T: Send + 'static> Deref for Aside<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("it is there until the drop")
    }
}

#[expect(clippy::expect_used, reason = "only the drop takes the value")]
impl<T: Send + 'static> DerefMut for Aside<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("it is there until the drop")
    }
}

impl<T: AsFd + Send + 'static> AsFd for Aside<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        (**self).as_fd()
    }
}

impl<T: AsRawFd + Send + 'static> AsRawFd for Aside<T> {
    fn as_raw_fd(&self) -> RawFd {
        (**self).as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{Sender, channel};
    use std::thread::{ThreadId, current};
    use std::time::Duration;

    use super::*;

    struct Tells(Sender<(ThreadId, usize)>, Arc<()>);

    impl Drop for Tells {
        fn drop(&mut self) {
            let _gone = self.0.send((current().id(), Arc::strong_count(&self.1)));
        }
    }

    #[test]
    fn a_value_is_dropped_elsewhere_and_keeps_its_place_until_then() {
        let (sender, dropped) = channel();
        let place = Arc::new(());
        let mut aside = Aside::new(Tells(sender, Arc::clone(&place)), &Closer::new(1));
        aside.keep(Arc::clone(&place));
        drop(aside);
        let (thread, places) = dropped.recv_timeout(Duration::from_mins(1)).unwrap();
        assert_ne!(thread, current().id());
        assert_eq!(places, 3);
    }
}
