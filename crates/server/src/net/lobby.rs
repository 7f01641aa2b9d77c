//! Connections that have not authenticated yet: bounded, and the oldest gives way.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::AbortHandle;

/// Everybody between accept and a verified proof.
#[derive(Debug)]
pub(crate) struct Lobby {
    guests: Mutex<Guests>,
    count_max: usize,
}

#[derive(Debug, Default)]
struct Guests {
    number_next: u64,
    /// By number, that is by age.
    tasks: BTreeMap<u64, Option<AbortHandle>>,
}

/// A place in the lobby, until it is dropped.
#[derive(Debug)]
pub(crate) struct Guest {
    lobby: Arc<Lobby>,
    number: u64,
}

impl Lobby {
    /// Room for `count_max` guests.
    pub(crate) fn new(count_max: usize) -> Self {
        Self { guests: Mutex::default(), count_max }
    }

    /// Runs a guest's task. When the lobby is full the oldest guest is shown out: somebody who
    /// means it needs milliseconds, whoever is still here is most likely silent.
    pub(crate) fn admit<F>(self: &Arc<Self>, task: impl FnOnce(Guest) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let number = {
            let mut guests = self.lock();
            if guests.tasks.len() >= self.count_max {
                guests.show_out_oldest();
            }
            guests.number_next += 1;
            let number = guests.number_next;
            guests.tasks.insert(number, None);
            number
        };
        let running = tokio::spawn(task(Guest { lobby: Arc::clone(self), number }));
        // It may have left already.
        if let Some(handle) = self.lock().tasks.get_mut(&number) {
            *handle = Some(running.abort_handle());
        }
    }

    /// Shows the oldest guest out, if there is any, for something that is scarcer than places.
    pub(crate) fn make_room(&self) -> bool {
        self.lock().show_out_oldest()
    }

    /// Shows everybody out.
    pub(crate) fn close(&self) {
        let mut guests = self.lock();
        guests.tasks.values().flatten().for_each(AbortHandle::abort);
        guests.tasks.clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Guests> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Guests {
    fn show_out_oldest(&mut self) -> bool {
        let oldest = self.tasks.pop_first();
        if let Some((_, Some(task))) = &oldest {
            task.abort();
        }
        oldest.is_some()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.lobby.lock().tasks.remove(&self.number);
    }
}
