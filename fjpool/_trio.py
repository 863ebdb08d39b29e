"""``await future`` under trio; imported when somebody has imported that."""

import trio

__all__ = ["is_running", "result_of"]


def is_running():
    """Whether trio runs the calling code, so that what it awaits must be trio's."""
    try:
        trio.lowlevel.current_trio_token()
    except RuntimeError:
        return False
    return True


async def result_of(future):
    """The future's result; a wait that is cancelled cancels the future if it has not started."""
    done, token = trio.Event(), trio.lowlevel.current_trio_token()

    def tell(_):
        try:
            token.run_sync_soon(done.set)
        except trio.RunFinishedError:
            pass  # nobody waits any more

    future.add_done_callback(tell)
    try:
        await done.wait()
    except trio.Cancelled:
        future.cancel()
        raise
    return future.result()
