//! The switch of bugs that are planted for simulated worlds to catch.

/// In a module with an enum of bugs, of which one at a time can be planted: `is` says whether it is
/// that one, `plant` plants it in everything of this thread until what it returns is dropped.
#[macro_export]
macro_rules! planted_switch {
    ($bug:ty) => {
        thread_local! {
            /// A world runs on one thread; worlds side by side may have different bugs.
            static PLANTED: std::cell::Cell<Option<$bug>> = const { std::cell::Cell::new(None) };
        }

        pub fn is(bug: $bug) -> bool {
            PLANTED.get() == Some(bug)
        }

        /// The bug is there until this is dropped.
        pub struct Planted(());

        /// Plants a bug in all of this thread.
        pub fn plant(bug: $bug) -> Planted {
            let before = PLANTED.replace(Some(bug));
            assert_eq!(before, None, "with two bugs nobody knows which was caught");
            Planted(())
        }

        impl Drop for Planted {
            fn drop(&mut self) {
                PLANTED.set(None);
            }
        }
    };
}
