"""Tasks: forking, joining, completing by hand, failing, the order they run in, what they see."""

import contextvars
import gc
import operator
import threading
import traceback
import weakref

import pytest

import fjpool
from support import WAIT, Boom, Held, boom, eventually, held, reach, thread_name


class Fib(fjpool.RecursiveTask):
    def __init__(self, n):
        super().__init__()
        self.n = n

    def compute(self):
        if self.n < 2:
            return self.n
        left = Fib(self.n - 1).fork()
        return Fib(self.n - 2).compute() + left.join()


class Call(fjpool.RecursiveTask):
    """Runs a function, and counts how often."""

    def __init__(self, function, *args):
        super().__init__()
        self.function, self.args, self.runs = function, args, 0

    def compute(self):
        self.runs += 1
        return self.function(*self.args)


def constant(value):
    return Call(lambda: value)


def failing(exception):
    def fail():
        raise exception

    return Call(fail)


# --- fork, join, invoke --------------------------------------------------------------------------


def test_invoke_computes_by_forking_and_joining(pool):
    """Left forked, right computed, left joined gives the sequential result."""
    assert pool.invoke(Fib(14)) == 377


def test_fork_returns_the_task_itself(pool1):
    """So that a fork can be chained into a join."""

    def body():
        task = constant(1)
        return task.fork() is task and task.join() == 1

    assert pool1.invoke(body)


def test_join_returns_the_same_object_each_time(pool):
    """A result is kept, and is the very object that the body returned."""
    value = object()

    def body():
        task = constant(value).fork()
        return task.join() is value and task.join() is value and task.result() is value

    assert pool.invoke(body)


def test_join_of_a_forked_task_runs_it_on_the_joiner(single):
    """With one worker a join runs the task in place; no second thread comes."""

    def body():
        tasks = [Call(thread_name).fork() for _ in range(3)]
        return {thread_name(), *(task.join() for task in tasks)}

    assert len(single.invoke(body)) == 1
    assert single.pool_size == 1


@pytest.mark.parametrize("joined, expected", [(0, "acb"), (1, "bca"), (2, "cba")])
def test_join_takes_the_task_out_of_the_queue_wherever_it_lies(pool1, joined, expected):
    """The awaited task runs first, whatever was forked after it; the others keep their order."""
    ran, all_ran = [], threading.Event()

    def note(name):
        ran.append(name)
        if len(ran) == 3:
            all_ran.set()

    def body():
        tasks = [Call(note, name).fork() for name in "abc"]
        tasks[joined].join()
        return list(ran)

    assert pool1.invoke(body) == [expected[0]]
    reach(all_ran)
    assert "".join(ran) == expected
    assert pool1.pool_size == 1


def test_fork_outside_uses_the_common_pool():
    """Without a pool in use a task forked outside of workers goes to the common pool."""
    task = Call(fjpool.current_pool).fork()
    task.quietly_join()
    assert task.join() in (None, fjpool.common_pool())  # None: the joiner took it back
    eventually(lambda: fjpool.common_pool().is_quiescent)


def test_fork_outside_uses_the_pool_in_use(pool):
    """``with use(pool)`` decides where a fork from outside goes."""
    with fjpool.use(pool):
        assert Call(fjpool.current_pool).fork().join() is pool


def test_fork_inside_stays_in_the_workers_pool(pool1, pool2):
    """A worker's forks go to its own pool, whatever pool is in use."""

    def body():
        with fjpool.use(pool2):
            return Call(fjpool.current_pool).fork().join()

    assert pool1.invoke(body) is pool1


def test_task_invoke_runs_in_the_caller(pool1):
    """task.invoke() is a plain call, also outside of workers."""
    assert Call(thread_name).invoke() == thread_name()
    assert pool1.invoke(lambda: Call(thread_name).invoke() == thread_name())


def test_task_invoke_raises_what_the_body_raised():
    """The same object, and the task has failed."""
    error = Boom()
    task = failing(error)
    with pytest.raises(Boom) as caught:
        task.invoke()
    assert caught.value is error
    assert task.is_completed_abnormally()


def test_task_invoke_of_a_done_task_returns_its_result():
    """The body does not run a second time."""
    task = constant(3)
    assert (task.invoke(), task.invoke(), task.runs) == (3, 3, 1)


def test_pool_invoke_takes_a_task_or_a_callable(pool):
    """A task runs as it is; a callable gets the arguments."""
    assert pool.invoke(constant(5)) == 5
    assert pool.invoke(pow, 2, 10) == 1024
    assert pool.invoke(int, "11", base=2) == 3


def test_pool_invoke_refuses_what_is_neither(pool1):
    """Something that cannot be called, and arguments for a task, are TypeErrors; nothing runs."""
    with pytest.raises(TypeError, match="expects a task or a callable, not int"):
        pool1.invoke(3)
    with pytest.raises(TypeError, match="a task takes no arguments here"):
        pool1.invoke(constant(1), 2)
    assert pool1.pool_size == 0


def test_pool_invoke_from_another_pools_worker_leaves_that_pool_working(make_pool):
    """A worker that waits for another pool's task is stood in for: its own pool runs other work."""
    outer, inner = make_pool(1), make_pool(1)
    other = threading.Event()
    body = Held()

    def wait_for_inner():
        return inner.invoke(body, 7)

    waiting = outer.submit(wait_for_inner)
    reach(body.started)
    outer.submit(other.set)
    reach(other)
    assert not waiting.done()
    body.release.set()
    assert waiting.result(WAIT) == 7


def test_quietly_join_and_quietly_invoke_raise_nothing(pool):
    """They wait, or run, and leave the outcome to be asked for."""

    def body():
        joined, invoked, cancelled = failing(Boom()), failing(Boom()), constant(1)
        cancelled.cancel()
        outcomes = [joined.fork().quietly_join(), invoked.quietly_invoke(), cancelled.quietly_join()]
        assert all(task.is_done() for task in (joined, invoked, cancelled))
        assert isinstance(joined.exception(), Boom) and isinstance(invoked.exception(), Boom)
        return outcomes

    assert pool.invoke(body) == [None, None, None]


def test_recursive_action_has_no_result(pool):
    """Its result is None whatever compute returns."""

    class Five(fjpool.RecursiveAction):
        def compute(self):
            return 5

    task = Five()
    assert pool.invoke(task) is None
    assert (task.join(), task.get_raw_result()) == (None, None)


@pytest.mark.parametrize("base", [fjpool.RecursiveTask, fjpool.RecursiveAction])
def test_task_without_compute_says_so(pool1, base):
    """The error names the class that forgot to define it."""

    class Forgetful(base):
        pass

    with pytest.raises(NotImplementedError, match=r"Forgetful must define compute\(\)"):
        pool1.invoke(Forgetful())


def test_task_without_super_init_works(pool):
    """A subclass that does not call super().__init__() is a task all the same."""

    class Bare(fjpool.RecursiveTask):
        def __init__(self, n):
            self.n = n

        def compute(self):
            return self.n + (Bare(self.n - 1).fork().join() if self.n else 0)

    assert pool.invoke(Bare(4)) == 10


def test_task_refuses_arguments_it_has_no_use_for():
    """A class without an __init__ of its own takes none."""
    with pytest.raises(TypeError, match="a task takes no arguments"):
        fjpool.Future(1)
    with pytest.raises(TypeError, match="a task takes no arguments"):
        fjpool.RecursiveTask(n=1)


def test_bare_future_cannot_be_queued(pool1):
    """A Future without a body is completed by hand; forking or invoking it is a clear TypeError."""
    with pytest.raises(TypeError, match="expected a task with something to run"):
        pool1.invoke(fjpool.Future())
    with fjpool.use(pool1), pytest.raises(TypeError, match="expected a task with something to run"):
        fjpool.Future().fork()


# --- forking twice, or too late ------------------------------------------------------------------


def test_fork_of_a_queued_task_is_an_error_and_it_runs_once(pool):
    """A second fork raises; the first one counts."""

    def body():
        task = constant(1).fork()
        try:
            task.fork()
        except RuntimeError as error:
            message = str(error)
        else:
            message = "" if task.is_done() else "no error"  # a thief was quick: harmless then
        return task.join(), task.runs, message

    result, runs, message = pool.invoke(body)
    assert (result, runs) == (1, 1)
    assert message in ("", "the task is queued or running already")


def test_double_fork_says_that_the_task_is_queued(pool1):
    """On one worker, where nobody can have taken it meanwhile."""

    def body():
        constant_task = constant(1).fork()
        constant_task.fork()

    with pytest.raises(RuntimeError, match="the task is queued or running already"):
        pool1.invoke(body)


def test_fork_of_a_running_task_is_an_error(single):
    """A task cannot fork itself."""

    class Selfish(fjpool.RecursiveTask):
        def compute(self):
            self.fork()

    with pytest.raises(RuntimeError, match="the task is queued or running already"):
        single.invoke(Selfish())
    assert single.invoke(pow, 2, 3) == 8


def test_submit_of_a_forked_task_is_an_error(make_pool):
    """The same task cannot lie in two pools."""
    first, second = make_pool(1), make_pool(1)
    with held(first):
        with fjpool.use(first):
            task = constant(1).fork()
        with pytest.raises(RuntimeError, match="the task is queued or running already"):
            second.invoke(task)
    assert (task.join(), task.runs) == (1, 1)


def test_fork_of_a_done_task_does_nothing(pool):
    """It keeps its result and does not run again."""

    def body():
        task = constant(4)
        task.invoke()
        return task.fork() is task, task.join(), task.runs

    assert pool.invoke(body) == (True, 4, 1)


def test_fork_of_a_cancelled_task_does_nothing(pool):
    """It stays cancelled and never runs."""

    def body():
        task = constant(4)
        task.cancel()
        task.fork()
        try:
            task.join()
        except fjpool.CancelledError:
            return task.runs
        return "not cancelled"

    assert pool.invoke(body) == 0
    assert pool.await_quiescence(WAIT)


# --- try_unfork ----------------------------------------------------------------------------------


def test_try_unfork_takes_the_newest_back(single):
    """It never runs, and may be forked again."""

    def body():
        task = constant(1).fork()
        back = task.try_unfork()
        queued = single.queued_task_count
        again = task.fork().join()
        return back, queued, again, task.runs

    assert single.invoke(body) == (True, 0, 1, 1)


def test_try_unfork_taken_back_task_never_runs(single):
    """What was forked before it runs; the task that was taken back does not."""
    newer, ran = constant(1), threading.Event()

    def body():
        Call(ran.set).fork()
        newer.fork()
        return newer.try_unfork()

    assert single.invoke(body) is True
    reach(ran)
    assert single.await_quiescence(WAIT)
    assert (newer.runs, newer.is_done()) == (0, False)


def test_try_unfork_of_another_than_the_newest_fails(single):
    """False, and the task stays queued."""

    def body():
        first, second = constant(1).fork(), constant(2).fork()
        answer = first.try_unfork()
        return answer, first.join(), second.join(), first.runs

    assert single.invoke(body) == (False, 1, 2, 1)


def test_try_unfork_outside_or_unforked_fails(pool1):
    """Outside of workers there is no deque to take from; a new or done task lies in none."""
    with held(pool1), fjpool.use(pool1):
        task = constant(1).fork()
        assert task.try_unfork() is False
    assert task.join() == 1

    def body():
        done = constant(2)
        done.invoke()
        return constant(3).try_unfork(), done.try_unfork()

    assert pool1.invoke(body) == (False, False)


# --- states --------------------------------------------------------------------------------------


def status(task):
    """Everything that says how a task stands."""
    return (
        task.is_done(),
        task.done(),
        task.running(),
        task.is_cancelled(),
        task.cancelled(),
        task.is_completed_normally(),
        task.is_completed_abnormally(),
        task.get_raw_result(),
    )


UNDONE = (False, False, False, False, False, False, False, None)


def test_status_methods_agree_in_every_state(pool1):
    """New, queued, running, normal, failed, cancelled: all predicates tell the same story."""
    task = Call(Held(), 3)
    assert status(task) == UNDONE
    with held(pool1), fjpool.use(pool1):
        task.fork()
        assert status(task) == UNDONE
    reach(task.function.started)
    assert status(task) == (False, False, True, False, False, False, False, None)
    task.function.release.set()
    assert task.join() == 3
    assert status(task) == (True, True, False, False, False, True, False, 3)
    failed = failing(Boom())
    failed.quietly_invoke()
    assert status(failed) == (True, True, False, False, False, False, True, None)
    cancelled = constant(1)
    assert cancelled.cancel()
    assert status(cancelled) == (True, True, False, True, True, False, True, None)


def test_status_methods_agree_while_others_race(pool):
    """Seen by four threads while tasks complete, fail and are cancelled, no view contradicts itself."""
    tasks = [Call(boom) if i % 3 == 0 else constant(i) for i in range(300)]
    start, wrong = threading.Barrier(4), []

    def watch(cancels):
        reach(start)
        for task in tasks:
            if cancels:
                task.cancel()
            normal = task.is_completed_normally()
            done = task.is_done()
            if normal and not (done and not task.is_cancelled() and task.exception(0) is None):
                wrong.append((task, "normal"))
            if task.is_cancelled() and not (task.is_done() and task.is_completed_abnormally()):
                wrong.append((task, "cancelled"))
            if done and task.running():
                wrong.append((task, "running"))

    threads = [threading.Thread(target=watch, args=(i == 0,)) for i in range(4)]
    for thread in threads:
        thread.start()

    def fork_all():
        for task in tasks:
            task.fork()
        for task in tasks:
            task.quietly_join()

    pool.invoke(fork_all)
    for thread in threads:
        thread.join(WAIT)
    assert wrong == []
    assert all(task.is_done() and task.runs == (not task.is_cancelled()) for task in tasks)


# --- cancel --------------------------------------------------------------------------------------


def test_cancel_before_the_start_suppresses_the_body(pool):
    """True, now and ever after; joins raise CancelledError and the body never runs."""
    task = constant(1)
    with held(pool, pool.parallelism), fjpool.use(pool):
        task.fork()
        assert task.cancel() is True
        for wait in (task.join, task.result, task.exception):
            with pytest.raises(fjpool.CancelledError):
                wait()
    assert task.cancel() is True
    assert pool.await_quiescence(WAIT)
    assert task.runs == 0


def test_cancel_of_a_running_task_is_refused(pool):
    """False, as in concurrent.futures: the body runs on and its result counts."""
    task = Call(Held(), 5)
    with fjpool.use(pool):
        task.fork()
    reach(task.function.started)
    assert task.cancel() is False
    task.function.release.set()
    assert task.join() == 5
    assert task.cancel() is False


def test_cancel_wakes_who_waits(pool1):
    """A thread inside join gets CancelledError when another one cancels."""
    waiting, seen = threading.Event(), []

    def wait(task):
        waiting.set()
        try:
            task.join()
        except fjpool.CancelledError as error:
            seen.append(error)

    with held(pool1), fjpool.use(pool1):
        task = constant(1).fork()
        thread = threading.Thread(target=wait, args=(task,))
        thread.start()
        reach(waiting)
        assert task.cancel()
        thread.join(WAIT)
    assert len(seen) == 1


def test_cancel_inside_a_worker_suppresses_a_forked_task(single):
    """The queue entry that is left behind is skipped."""

    def body():
        tasks = [constant(i).fork() for i in range(10)]
        cancelled = [task.cancel() for task in tasks[::2]]
        for task in tasks:
            task.quietly_join()
        return all(cancelled), [task.runs for task in tasks]

    assert single.invoke(body) == (True, [0, 1] * 5)
    assert single.await_quiescence(WAIT)
    assert single.queued_task_count == 0


# --- completing by hand --------------------------------------------------------------------------


def test_complete_suppresses_the_body(pool):
    """A task that was completed before it ran has that value, and its body does not run."""
    task = constant(1)
    with held(pool, pool.parallelism), fjpool.use(pool):
        task.fork()
        task.complete(42)
        assert (task.join(), task.is_completed_normally()) == (42, True)
    assert pool.await_quiescence(WAIT)
    assert (task.join(), task.runs) == (42, 0)


def test_complete_replaces_the_value_of_a_normal_task():
    """As in Java: a second complete() of a task that completed normally replaces its value."""
    task = constant(1)
    task.complete(42)
    task.complete(43)
    assert (task.join(), task.get_raw_result(), task.runs) == (43, 43, 0)


def test_complete_of_a_failed_task_still_raises():
    """The raw value changes, joins raise all the same."""
    task = failing(Boom())
    task.quietly_invoke()
    task.complete(5)
    assert task.get_raw_result() == 5
    with pytest.raises(Boom):
        task.join()
    assert task.is_completed_abnormally()


def test_complete_wakes_who_waits_and_overrules_the_body(pool1):
    """Completed while it runs, a task has the value it was given; the body's is dropped."""
    task = Call(Held(), "late")
    with fjpool.use(pool1):
        task.fork()
    reach(task.function.started)
    task.complete("early")
    assert task.join() == "early"
    task.function.release.set()
    assert pool1.await_quiescence(WAIT)
    assert (task.join(), task.runs) == ("early", 1)


@pytest.mark.parametrize("exception", [Boom("x"), Boom, KeyError("k")])
def test_complete_exceptionally_makes_joins_raise(pool1, exception):
    """An exception, or its class; the body does not run."""
    task = constant(1)
    task.complete_exceptionally(exception)
    kind = exception if isinstance(exception, type) else type(exception)
    with pytest.raises(kind) as caught:
        task.join()
    assert isinstance(exception, type) or caught.value is exception
    with pytest.raises(kind):
        pool1.invoke(task)
    assert task.runs == 0


@pytest.mark.parametrize("wrong", [None, "text", 3, object])
def test_complete_exceptionally_refuses_what_is_no_exception(wrong):
    """TypeError, and the task stays as it was."""
    task = constant(1)
    with pytest.raises(TypeError, match="expected an exception, not"):
        task.complete_exceptionally(wrong)
    assert status(task) == UNDONE


def test_complete_exceptionally_has_no_effect_once_done():
    """A value stays, a failure stays."""
    task = constant(7)
    task.invoke()
    task.complete_exceptionally(Boom())
    assert task.join() == 7
    error = Boom()
    failed = failing(error)
    failed.quietly_invoke()
    failed.complete_exceptionally(KeyError())
    assert failed.exception() is error


def test_completing_by_hand_races_to_one_outcome(pool):
    """Body, complete, complete_exceptionally and cancel at once: one of them wins, for good."""
    for _ in range(50):
        task, start = constant("body"), threading.Barrier(4)

        def act(action, task=task, start=start):
            reach(start)
            action(task)

        actions = [
            lambda task: task.complete_exceptionally(Boom()),
            lambda task: task.cancel(),
            lambda task: pool.submit(task.quietly_invoke).result(WAIT),
        ]
        threads = [threading.Thread(target=act, args=(action,)) for action in actions]
        for thread in threads:
            thread.start()
        reach(start)
        for thread in threads:
            thread.join(WAIT)
        seen = status(task)
        assert seen[0] and seen[5] + seen[6] == 1
        assert status(task) == seen


# --- failures ------------------------------------------------------------------------------------


def deepest_line(error):
    return traceback.extract_tb(error.__traceback__)[-1].name


def test_failure_reaches_the_joiner_as_the_same_object(pool):
    """The exception that the body raised, not a copy or a wrapper."""
    error = Boom("here")

    def body():
        try:
            failing(error).fork().join()
        except Boom as caught:
            return caught is error

    assert pool.invoke(body) is True
    with pytest.raises(Boom) as caught:
        pool.invoke(failing(error))
    assert caught.value is error


def test_failure_carries_the_workers_traceback(pool):
    """The deepest frame is where the body raised, the outermost the joiner's."""

    def deep(n):
        if n == 0:
            raise Boom
        deep(n - 1)

    future = pool.submit(deep, 3)
    with pytest.raises(Boom) as caught:
        future.result(WAIT)
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[0] == "test_failure_carries_the_workers_traceback"
    assert names[-4:] == ["deep"] * 4


def test_failure_keeps_cause_and_context(pool1):
    """What led to it in the body is still there."""

    def body():
        try:
            boom("first")
        except Boom as error:
            raise KeyError("second") from error

    with pytest.raises(KeyError) as caught:
        pool1.invoke(body)
    assert isinstance(caught.value.__cause__, Boom)
    assert deepest_line(caught.value.__cause__) == "boom"


def test_failure_joined_twice_does_not_pile_up_frames(pool1):
    """Each joiner sees the worker's frames and its own, not the earlier joiner's."""
    task = failing(Boom())
    depths = []
    for _ in range(3):
        with pytest.raises(Boom) as caught:
            pool1.invoke(task)
        depths.append(len(traceback.extract_tb(caught.value.__traceback__)))
    assert len(set(depths[1:])) == 1  # the first went through the pool, the others are done already
    assert abs(depths[0] - depths[1]) <= 3
    assert deepest_line(caught.value) == "fail"


def test_failure_joined_by_two_threads_is_not_scrambled(pool2):
    """Both get the object, and afterwards its deepest frame is still the body's."""
    for _ in range(20):
        body, seen = Held(), []

        def fail(body=body):
            body()
            raise Boom

        future = pool2.submit(fail)
        reach(body.started)

        def join(future=future, seen=seen):
            try:
                future.result(WAIT)
            except Boom as error:
                seen.append((error, deepest_line(error)))

        threads = [threading.Thread(target=join) for _ in range(2)]
        for thread in threads:
            thread.start()
        body.release.set()
        for thread in threads:
            thread.join(WAIT)
        assert [(error is seen[0][0], name) for error, name in seen] == [(True, "fail")] * 2


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit, StopIteration])
def test_failure_of_any_kind_completes_the_task_and_the_worker_lives_on(single, kind):
    """KeyboardInterrupt or sys.exit() in a body ends that task, not its worker or the process."""
    error = kind(3)

    def body():
        raise error

    before = single.submit(threading.get_ident).result(WAIT)
    future = single.submit(body)
    with pytest.raises(kind) as caught:
        future.result(WAIT)
    assert caught.value is error
    assert single.submit(threading.get_ident).result(WAIT) == before


def test_failure_of_a_forked_task_joined_in_place_reaches_the_parent(single):
    """A child that fails where its parent joins it fails there, and only there."""

    def body():
        good, bad = constant(1).fork(), failing(Boom()).fork()
        with pytest.raises(Boom):
            bad.join()
        return good.join()

    assert single.invoke(body) == 1


def test_recursion_error_stays_in_the_task_that_went_too_deep(single):
    """Endless recursion in a body is that task's RecursionError; the worker lives on."""

    def endless():
        return endless()

    with pytest.raises(RecursionError):
        single.submit(endless).result(WAIT)
    assert single.submit(pow, 2, 3).result(WAIT) == 8


# --- invoke_all ----------------------------------------------------------------------------------


def test_invoke_all_returns_the_results_in_order(pool):
    """For tasks one by one, or one iterable of them; inside a worker and outside."""
    assert pool.invoke(lambda: fjpool.invoke_all(*map(constant, range(5)))) == list(range(5))
    assert pool.invoke(lambda: fjpool.invoke_all(constant(i) for i in range(5))) == list(range(5))
    with fjpool.use(pool):
        assert fjpool.invoke_all([constant("a"), Fib(7)]) == ["a", 13]
        assert fjpool.invoke_all(constant("b")) == ["b"]
        assert fjpool.invoke_all() == [] == fjpool.invoke_all([])


def test_invoke_all_runs_in_order_on_one_worker(single):
    """The first here, the others joined in order: one worker runs first to last in both orders."""
    ran = []
    single.invoke(lambda: fjpool.invoke_all(*(Call(ran.append, i) for i in range(6))))
    assert ran == list(range(6))


def test_invoke_all_raises_the_failure_and_cancels_the_rest(single):
    """What has not started by then never runs."""
    error = Boom()
    tasks = [constant(0), failing(error), constant(2), constant(3)]
    with pytest.raises(Boom) as caught:
        single.invoke(lambda: fjpool.invoke_all(tasks))
    assert caught.value is error
    assert [task.runs for task in tasks] == [1, 1, 0, 0]
    assert all(task.is_cancelled() for task in tasks[2:])


def test_invoke_all_whose_first_task_fails_cancels_the_others(single):
    """The first one runs in the caller; its failure leaves the forked ones unrun."""
    tasks = [failing(Boom()), constant(1), constant(2)]
    with pytest.raises(Boom):
        single.invoke(lambda: fjpool.invoke_all(*tasks))
    assert [task.runs for task in tasks] == [1, 0, 0]


@pytest.mark.parametrize("wrong", [None, 3, len])
def test_invoke_all_refuses_what_is_no_task(pool1, wrong):
    """A TypeError names it, and nothing has been forked."""
    tasks = [constant(0), constant(1)]
    with pytest.raises(TypeError, match=f"expects tasks, not {type(wrong).__name__}"):
        pool1.invoke(lambda: fjpool.invoke_all(*tasks, wrong))
    assert [status(task) for task in tasks] == [UNDONE] * 2


# --- @fjpool.task --------------------------------------------------------------------------------


def test_task_decorator_forks_and_calls(pool):
    """Called it is the function; fork() queues a call and returns its future."""

    @fjpool.task
    def fib(n):
        if n < 2:
            return n
        a = fib.fork(n - 1)
        b = fib(n - 2)
        return a.join() + b

    assert fib(10) == 55
    assert pool.invoke(fib, 14) == 377


def test_task_decorator_passes_all_arguments(pool1):
    """Positional ones and keywords, whatever their names."""

    @fjpool.task
    def collect(*args, **kwargs):
        return args, kwargs

    with fjpool.use(pool1):
        future = collect.fork(1, 2, self=3, function=4, fn=5)
        assert isinstance(future, fjpool.Future)
        assert future.join() == ((1, 2), {"self": 3, "function": 4, "fn": 5})
    assert collect(1, self=2, function=3) == ((1,), {"self": 2, "function": 3})


def test_task_decorator_works_on_methods(pool):
    """An instance's, a class's and a static one."""

    class Adder:
        def __init__(self, base):
            self.base = base

        @fjpool.task
        def add(self, n):
            """Adds."""
            return self.base + n

        @classmethod
        @fjpool.task
        def name(cls, suffix):
            return cls.__name__ + suffix

        @staticmethod
        @fjpool.task
        def double(n):
            return 2 * n

    adder = Adder(10)
    with fjpool.use(pool):
        assert adder.add(1) == 11
        assert adder.add.fork(2).join() == 12
        assert Adder.add.fork(adder, n=3).join() == 13
        assert Adder.double.fork(4).join() == 8
        assert adder.double(4) == 8
        assert Adder.name("!") == "Adder!"


def test_task_decorator_keeps_name_and_docstring():
    """help() and repr() show the function."""

    @fjpool.task
    def documented(n):
        """What it says."""

    assert (documented.__name__, documented.__doc__) == ("documented", "What it says.")
    assert "documented" in repr(documented)


def test_task_decorator_refuses_what_cannot_be_called():
    """A TypeError that says what it expects."""
    with pytest.raises(TypeError, match="expects a function, not int"):
        fjpool.task(3)


# --- order ---------------------------------------------------------------------------------------


class Recorder:
    """Notes what ran, and opens `all_ran` when as many as expected have."""

    def __init__(self, expected):
        self.ran, self.expected, self.all_ran = [], expected, threading.Event()

    def __call__(self, item):
        self.ran.append(item)
        if len(self.ran) == self.expected:
            self.all_ran.set()

    def wait(self):
        reach(self.all_ran)
        return self.ran


NEWEST_FIRST, OLDEST_FIRST = [6, 5, 4, 3, 2, 1], [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("order, expected", [("lifo", NEWEST_FIRST), ("fifo", OLDEST_FIRST)])
def test_order_of_forked_tasks_is_that_of_the_deque(make_pool, order, expected):
    """Six tasks forked and never joined: newest first, with order="fifo" oldest first, every time."""
    pool = make_pool(1, order=order)
    for _ in range(100):
        note = Recorder(6)
        pool.submit(lambda note=note: [Call(note, i).fork() for i in OLDEST_FIRST]).result(WAIT)
        assert note.wait() == expected


@pytest.mark.parametrize("order, expected", [("lifo", NEWEST_FIRST), ("fifo", OLDEST_FIRST)])
def test_order_drains_the_own_deque_before_a_second_submission(make_pool, order, expected):
    """What a top-level task forked runs before the worker takes anything else."""
    pool, note = make_pool(1, order=order), Recorder(7)
    with held(pool):
        pool.submit(lambda: [Call(note, i).fork() for i in OLDEST_FIRST])
        pool.submit(note, "outside")
    assert note.wait() == [*expected, "outside"]


def test_order_of_outside_submissions_is_first_come(single):
    """Whatever the worker's own order: one submitter's tasks are taken in order."""
    note = Recorder(50)
    with held(single):
        for i in range(50):
            single.submit(note, i)
    assert note.wait() == list(range(50))


def test_order_of_a_workers_own_submissions_is_first_come(single):
    """submit() from a worker goes to its inbox, oldest first, and behind what it forked."""
    note = Recorder(8)

    def body():
        for i in OLDEST_FIRST:
            single.submit(note, i)
        Call(note, "forked").fork()
        Call(note, "forked").fork()

    single.submit(body)
    assert note.wait() == ["forked", "forked", *OLDEST_FIRST]


@pytest.mark.parametrize("order", ["lifo", "fifo"])
def test_order_of_thieves_is_oldest_first(make_pool, order):
    """While the owner is busy, another worker takes its forks from the oldest end."""
    pool, note = make_pool(2, order=order), Recorder(6)

    def body():
        for i in OLDEST_FIRST:
            Call(note, i).fork()
        return note.wait()  # the owner does not run any of them

    assert pool.submit(body).result(WAIT) == OLDEST_FIRST


def test_order_a_workers_endless_work_does_not_starve_outsiders(single):
    """A task that keeps forking its successor still lets an outside submission run."""
    stop = threading.Event()

    def endless():
        if not stop.is_set():
            Call(endless).fork()

    single.submit(endless)
    single.submit(stop.set).result(WAIT)


# --- joins help only descendants -----------------------------------------------------------------


@pytest.mark.parametrize("max_workers", [2, None])
@pytest.mark.parametrize("order", ["lifo", "fifo"])
def test_join_with_a_lock_held_never_runs_a_stranger(make_pool, order, max_workers):
    """A worker that joins while it holds a lock does not pick up a task that wants that lock."""
    pool = make_pool(2, order=order, max_workers=max_workers)
    lock, child = threading.Lock(), Held()
    owners, owner = [], []

    def stranger():
        assert lock.acquire(timeout=WAIT), "deadlock on the lock"
        owners.append(list(owner))
        lock.release()

    def root():
        awaited = Call(child).fork()
        reach(child.started)  # the other worker runs it, and stays in it
        for _ in range(5):
            pool.submit(stranger)
            Call(stranger).fork()
        with lock:
            owner.append(threading.get_ident())
            blocked.set()
            awaited.join()
            owner.clear()

    blocked = threading.Event()
    future = pool.submit(root)
    reach(blocked)
    if max_workers is None:  # a stand-in takes the strangers up; they wait for the lock
        eventually(lambda: pool.pool_size > 2)
    child.release.set()
    future.result(WAIT)
    assert pool.await_quiescence(WAIT)
    assert owners == [[]] * 10


def test_join_helps_with_what_the_awaited_task_forked(pool2):
    """Whoever waits for a task that runs elsewhere takes part in its work."""
    forked, names = threading.Event(), []

    def awaited():
        children = [Call(lambda: names.append(thread_name())).fork() for _ in range(4)]
        forked.set()
        eventually(lambda: len(names) == 4)  # without running any of them itself
        for child in children:
            child.join()
        return thread_name()

    def root():
        task = Call(awaited).fork()
        reach(forked)  # the other worker has it
        return task.join()

    other = pool2.submit(root).result(WAIT)
    assert len(names) == 4 and other not in names


def test_join_of_a_task_nobody_runs_lets_other_work_go_on(pool1):
    """The blocked worker is stood in for, and joins in again when the task is completed by hand."""
    never, other = fjpool.Future(), threading.Event()
    waiting = pool1.submit(never.join)
    eventually(lambda: pool1._blocked == 1)
    pool1.submit(other.set)
    reach(other)
    assert pool1.pool_size == 2
    never.complete(9)
    assert waiting.result(WAIT) == 9


def test_join_at_the_thread_limit_keeps_waiting(make_pool):
    """With no thread to spare the worker waits uncompensated, and goes on when the task is done."""
    pool, never = make_pool(max_workers=1), fjpool.Future()
    waiting = pool.submit(never.join)
    queued = pool.submit(pow, 2, 3)
    eventually(lambda: pool._blocked == 1)
    assert (pool.pool_size, queued.done()) == (1, False)
    never.complete(1)
    assert (waiting.result(WAIT), queued.result(WAIT)) == (1, 8)


# --- depth ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [400, 5_000])
def test_depth_of_nested_submits_never_deadlocks(pool, depth):
    """A task that waits for a task it submitted, and so on: one worker is enough."""

    def nested(n):
        return n and 1 + pool.submit(nested, n - 1).result()

    assert pool.submit(nested, depth).result(WAIT) == depth


def test_depth_of_nested_maps_never_deadlocks(pool):
    """The same through map, whose results are awaited inside the task."""

    def nested(n):
        return n and 1 + sum(pool.map(nested, [n - 1]))

    assert pool.submit(nested, 400).result(WAIT) == 400


def test_depth_of_forks_joined_in_place_is_no_recursion_error(single):
    """A left spine of 5,000 forks, joined on the way back, completes on one worker."""

    class Spine(fjpool.RecursiveTask):
        def __init__(self, n):
            super().__init__()
            self.n = n

        def compute(self):
            return self.n and 1 + Spine(self.n - 1).fork().join()

    assert single.submit(lambda: Spine(5_000).fork().join()).result(WAIT) == 5_000


@pytest.mark.parametrize("stack_size", [None, 2**20])
def test_depth_of_endless_recursion_is_a_recursion_error(make_pool, stack_size):
    """In Python and through C functions, on the system's stack and on a small one; the worker lives on."""
    pool = make_pool(1, stack_size=stack_size)

    def down(n):
        return down(n + 1)

    def down_through_c(n):
        return list(map(down_through_c, [n + 1]))

    for recurse in down, down_through_c:
        with pytest.raises(RecursionError):
            pool.submit(recurse, 0).result(WAIT)
    assert pool.submit(pow, 2, 3).result(WAIT) == 8


@pytest.mark.parametrize("through", ["submit", "map", "fork"])
@pytest.mark.parametrize("depth", [50, 400, 5_000])
def test_depth_without_spares_completes_or_is_a_recursion_error(make_pool, through, depth):
    """Where no thread may stand in, what nests too deep fails with RecursionError; nothing hangs.

    A level of map counts as ten of the thousand that Python 3.10 allows.
    """
    pool = make_pool(max_workers=1)

    def nested(n):
        if n == 0:
            return 0
        if through == "submit":
            return 1 + pool.submit(nested, n - 1).result()
        if through == "map":
            return 1 + sum(pool.map(nested, [n - 1]))
        return 1 + Call(nested, n - 1).fork().join()

    try:
        assert pool.submit(nested, depth).result(WAIT) == depth
    except RecursionError:
        assert depth > 50
    assert pool.submit(nested, 50).result(WAIT) == 50


def test_depth_survives_small_stacks(make_pool):
    """With 256 KiB of stack a worker hands on what would not fit, instead of crashing."""
    pool = make_pool(1, stack_size=256 * 1024)

    def nested(n):
        return n and 1 + pool.submit(nested, n - 1).result()

    assert pool.submit(nested, 300).result(WAIT) == 300


# --- time-outs -----------------------------------------------------------------------------------


def test_timeout_of_a_task_that_never_runs(pool):
    """Outside, and inside a worker, waiting ends with TimeoutError; the task stays as it was."""
    task = constant(1)
    for wait in (task.result, task.exception):
        with pytest.raises(fjpool.TimeoutError):
            wait(0.01)
        with pytest.raises(fjpool.TimeoutError):
            pool.invoke(wait, timeout=0.01)
    assert status(task) == UNDONE
    assert pool.invoke(task) == 1


def test_timeout_of_a_task_that_runs_elsewhere(pool2):
    """A worker's timed wait for a task that another worker runs ends in time, and can be repeated."""
    body = Held()

    def root():
        task = Call(body, 6).fork()
        reach(body.started)
        for _ in range(2):
            with pytest.raises(fjpool.TimeoutError):
                task.result(0.01)
        body.release.set()
        return task.result(WAIT)

    assert pool2.submit(root).result(WAIT) == 6


def test_timeout_ends_a_cycle_of_joins(pool):
    """Two tasks that wait for each other: the timed waits end, and so do both tasks."""

    class Waiter(fjpool.RecursiveTask):
        def compute(self):
            try:
                self.other.result(0.05)
            except fjpool.TimeoutError:
                return "timed out"
            return "joined"

    first, second = Waiter(), Waiter()
    first.other, second.other = second, first
    with fjpool.use(pool):
        first.fork()
        second.fork()
        outcomes = {first.result(WAIT), second.result(WAIT)}
    assert "timed out" in outcomes
    del first.other


# --- what a task sees ----------------------------------------------------------------------------


def test_current_task_is_the_running_future(pool):
    """Inside a body it is the task itself, also after a nested one has run in place."""

    def body():
        mine = fjpool.current_task()
        child = Call(fjpool.current_task).fork()
        return mine, child.join() is child, fjpool.current_task() is mine

    future = pool.submit(body)
    mine, child_right, restored = future.result(WAIT)
    assert mine is future and child_right and restored
    assert fjpool.current_task() is None


def test_current_task_is_restored_after_a_failure(single):
    """A nested task that fails does not leave itself behind."""

    def body():
        mine = fjpool.current_task()
        failing(Boom()).fork().quietly_join()
        return fjpool.current_task() is mine

    assert single.invoke(lambda: single.submit(body).result()) is True


def test_current_task_of_a_task_run_outside_is_that_task():
    """task.invoke() in any thread counts as running it."""
    task = Call(fjpool.current_task)
    assert task.invoke() is task
    assert fjpool.current_task() is None


def test_current_pool_is_that_of_the_worker(make_pool):
    """None outside; inside, the pool whose worker calls."""
    first, second = make_pool(1), make_pool(1)
    assert fjpool.current_pool() is None
    assert first.invoke(fjpool.current_pool) is first
    assert first.invoke(lambda: (second.invoke(fjpool.current_pool), fjpool.current_pool())) == (
        second,
        first,
    )


def test_use_chooses_the_pool_of_the_module_functions(make_pool):
    """Blocks nest, and leaving one restores what was before."""
    first, second = make_pool(1), make_pool(1)
    with fjpool.use(first) as entered:
        assert entered is first
        assert fjpool.submit(fjpool.current_pool).result(WAIT) is first
        with fjpool.use(second):
            assert fjpool.invoke(fjpool.current_pool) is second
            assert list(fjpool.map(lambda _: fjpool.current_pool(), [1])) == [second]
        assert fjpool.invoke(fjpool.current_pool) is first
        with pytest.raises(Boom), fjpool.use(second):
            raise Boom
        assert fjpool.invoke(fjpool.current_pool) is first
    assert fjpool.submit(fjpool.current_pool).result(WAIT) is fjpool.common_pool()


def test_use_can_be_entered_again(pool1, pool2):
    """One object, nested in itself and reused."""
    chosen = fjpool.use(pool1)
    for _ in range(2):
        with chosen, fjpool.use(pool2), chosen:
            assert fjpool.invoke(fjpool.current_pool) is pool1


def test_use_does_not_reach_other_threads(pool1):
    """The choice belongs to the context it was made in."""
    seen = []
    with fjpool.use(pool1):
        target = lambda: seen.append(fjpool.submit(fjpool.current_pool).result(WAIT))  # noqa: E731
        thread = threading.Thread(target=contextvars.Context().run, args=(target,))
        thread.start()
        thread.join(WAIT)
    assert seen == [fjpool.common_pool()]


def test_use_is_ignored_inside_workers(pool1, pool2):
    """A worker's own pool comes first."""

    def body():
        with fjpool.use(pool2):
            return fjpool.invoke(fjpool.current_pool), fjpool.submit(fjpool.current_pool).result()

    assert pool1.invoke(body) == (pool1, pool1)


@pytest.mark.parametrize("wrong", [None, 3, fjpool.ForkJoinPool])
def test_use_refuses_what_is_no_pool(wrong):
    """A TypeError that names what it got."""
    with pytest.raises(TypeError, match=f"use expects a ForkJoinPool, not {type(wrong).__name__}"):
        fjpool.use(wrong)


@pytest.mark.parametrize("name", ["map", "starmap", "reduce", "parallel_reduce", "parallel_for"])
def test_pool_argument_chooses_the_pool(pool1, name):
    """Each module function that takes pool= runs there, and refuses what is no pool."""
    seen = []

    def note(*args):
        seen.append(fjpool.current_pool())
        return 0

    arguments = {
        "map": (note, [1, 2]),
        "starmap": (note, [(1, 2), (3, 4)]),
        "reduce": (note, [1, 2]),
        "parallel_reduce": (note, 3),
        "parallel_for": (note, 3),
    }[name]
    function = getattr(fjpool, name)
    list(function(*arguments, pool=pool1) or ())
    assert seen and set(seen) == {pool1}
    with pytest.raises(TypeError, match="pool must be a ForkJoinPool or None, not int"):
        function(*arguments, pool=3)


variable = contextvars.ContextVar("variable", default="default")


def test_context_is_captured_at_submit_and_at_fork(pool):
    """A task sees the variables as they were when it was handed in, not as they are later."""
    variable.set("submitted")
    with held(pool, pool.parallelism):
        future = pool.submit(variable.get)
        variable.set("later")
    assert future.result(WAIT) == "submitted"

    def body():
        variable.set("forked")
        task = Call(variable.get).fork()
        variable.set("after")
        return task.join()

    assert pool.invoke(body) == "forked"


def test_context_changes_do_not_leak(pool):
    """What a task sets is seen by nobody else: not its joiner, not the worker's next task."""
    variable.set("outside")

    def change():
        variable.set("changed")
        return variable.get()

    def body():
        assert Call(change).fork().join() == "changed"  # in place, with one worker
        return variable.get()

    assert pool.submit(change).result(WAIT) == "changed"
    assert pool.submit(variable.get).result(WAIT) == "outside"
    assert pool.invoke(body) == "outside"
    assert variable.get() == "outside"


def test_context_follows_into_map_and_leaves(pool):
    """Calls of map and Python leaves see the caller's variables, each run its own copy."""
    variable.set("mapped")
    assert list(pool.map(lambda _: variable.get(), range(20), chunksize=3)) == ["mapped"] * 20

    def leaf(lo, hi):
        seen = variable.get()
        variable.set("leaf")
        return [seen] * (hi - lo)

    assert pool.parallel_reduce(leaf, 20, chunksize=3) == ["mapped"] * 20
    assert variable.get() == "mapped"
    assert pool.reduce(operator.add, [[variable.get()]] * 5, chunksize=1) == ["mapped"] * 5


def test_context_of_a_failed_task_is_left(single):
    """After a failure the joiner's context is the one it had."""

    def fail():
        variable.set("failed")
        raise Boom

    def body():
        variable.set("mine")
        Call(fail).fork().quietly_join()
        return variable.get()

    assert single.invoke(body) == "mine"


def test_thread_locals_persist_per_worker(single):
    """A worker keeps its thread state between tasks, also after it was idle."""
    local = threading.local()

    def remember():
        local.value = 1

    single.submit(remember).result(WAIT)
    assert single.await_quiescence(WAIT)
    assert single.submit(lambda: local.value).result(WAIT) == 1


def test_thread_locals_die_with_the_worker(make_pool):
    """When a pool ends, what its workers kept is freed."""
    pool, local = make_pool(1), threading.local()

    class Value:
        pass

    def remember():
        local.value = Value()
        return weakref.ref(local.value)

    ref = pool.submit(remember).result(WAIT)
    assert ref() is not None
    pool.shutdown()
    gc.collect()
    assert ref() is None
