using System;
using System.Threading;
using System.Threading.Tasks;

namespace Ticketing
{
    /// <summary>What the server granted, and until when it may be relied on.</summary>
    internal readonly struct Grant
    {
        internal Grant(ulong token, TimeSpan validBefore)
        {
            Token = token;
            ValidBefore = validBefore;
        }

        internal ulong Token { get; }

        internal TimeSpan ValidBefore { get; }
    }

    /// <summary>One logical acquire: retried only while the server provably did not take it.</summary>
    internal sealed class Acquire
    {
        private readonly Router router;
        private readonly Releaser releaser;
        private readonly byte[][] keys;
        private readonly AcquireOptions options;
        private readonly CancellationToken closing;
        private readonly CancellationToken caller;
        private readonly TimeSpan deadline;
        private bool everUsable;
        private bool leaderless;

        internal Acquire(
            Router router,
            Releaser releaser,
            byte[][] keys,
            AcquireOptions options,
            CancellationToken closing,
            CancellationToken caller)
        {
            this.router = router;
            this.releaser = releaser;
            this.keys = keys;
            this.options = options;
            this.closing = closing;
            this.caller = caller;
            deadline = Clock.Now
                + (options.WaitSeconds == 0 ? Limits.Immediate : TimeSpan.FromSeconds(options.WaitSeconds));
        }

        /// <summary>The attempt that nobody waits for any more and that may still be granted.</summary>
        internal Task? Outstanding { get; private set; }

        internal async Task<Grant> Run()
        {
            using var interrupt = CancellationTokenSource.CreateLinkedTokenSource(closing, caller);
            TimeSpan retryPause = Limits.RetryPauseMin;
            for (;;)
            {
                ThrowIfInterrupted();
                TimeSpan left = deadline - Clock.Now;
                if (left <= TimeSpan.Zero)
                {
                    throw Exhausted();
                }

                Connection? connection = router.Choose(Array.Empty<Connection>());
                if (connection != null)
                {
                    everUsable = true;
                    var attempt = new Attempt(this);
                    connection.Submit(attempt);
                    (End end, Reply reply) = await Ended(attempt, connection, interrupt.Token).ConfigureAwait(false);
                    if (end == End.Unsent)
                    {
                        continue;
                    }

                    if (end == End.Lost)
                    {
                        throw new IndeterminateException(
                            "the connection ended before the acquire was answered; do not enter the critical section");
                    }

                    if (reply.Grants)
                    {
                        return Granted(reply.Token, attempt.SentAt);
                    }

                    NoteRefusal(reply, connection);
                }

                await Clock.Pause(retryPause < left ? retryPause : left, interrupt.Token).ConfigureAwait(false);
                retryPause = retryPause + retryPause < Limits.RetryPauseMax ? retryPause + retryPause : Limits.RetryPauseMax;
            }
        }

        /// <summary>Waits for the attempt's end; throws when it is given up after it may have been sent.</summary>
        private async Task<(End End, Reply Reply)> Ended(Attempt attempt, Connection connection, CancellationToken interrupt)
        {
            Task<(End End, Reply Reply)> result = attempt.Result;
            for (;;)
            {
                using var stop = CancellationTokenSource.CreateLinkedTokenSource(interrupt);
                bool isQueued = attempt.IsQueued;
                TimeSpan end = isQueued ? deadline : attempt.GraceEnd;
                // While it is queued, look again when it may have been sent in the meantime.
                await Task.WhenAny(result, Clock.Pause(end - Clock.Now, stop.Token)).ConfigureAwait(false);
                stop.Cancel();
                if (result.IsCompleted)
                {
                    return await result.ConfigureAwait(false);
                }

                bool isOver = Clock.Now >= (attempt.IsQueued ? deadline : attempt.GraceEnd);
                if (!interrupt.IsCancellationRequested && !isOver)
                {
                    continue;
                }

                if (attempt.Withdraw())
                {
                    // Run() finds out why: cancelled, closed, or the wait is over.
                    return (End.Unsent, default);
                }

                if (interrupt.IsCancellationRequested || Clock.Now >= attempt.GraceEnd)
                {
                    throw Abandon(attempt, connection);
                }
            }
        }

        /// <summary>The caller is told now; the request stays behind and releases a late grant.</summary>
        private Exception Abandon(Attempt attempt, Connection connection)
        {
            Outstanding = ReleaseLateGrant(attempt.Result);
            if (closing.IsCancellationRequested)
            {
                return new IndeterminateException("the broker was closed before the acquire was answered");
            }

            if (caller.IsCancellationRequested)
            {
                return new OperationCanceledException("the acquire was cancelled", caller);
            }

            if (connection.ReceivedAt <= attempt.SentAt)
            {
                connection.Abort();
            }

            return new IndeterminateException(
                $"no answer within the wait and {Limits.AnswerGrace.TotalSeconds} s more; do not enter the critical section");
        }

        private async Task ReleaseLateGrant(Task<(End End, Reply Reply)> result)
        {
            (End end, Reply reply) = await result.ConfigureAwait(false);
            if (end == End.Answered && reply.Grants)
            {
                releaser.GiveBackInBackground(keys, reply.Token);
            }
        }

        private Grant Granted(ulong token, TimeSpan sentAt)
        {
            TimeSpan validBefore = sentAt + TimeSpan.FromSeconds(options.LeaseSeconds);
            TimeSpan left = validBefore - Clock.Now;
            bool isEnough = left > TimeSpan.Zero && left >= options.Budget;
            if (isEnough && !caller.IsCancellationRequested)
            {
                return new Grant(token, validBefore);
            }

            releaser.GiveBackInBackground(keys, token);
            caller.ThrowIfCancellationRequested();
            throw new InsufficientLeaseException(
                $"granted with {Math.Max(0, left.TotalMilliseconds):F0} ms of lease left; it is being released");
        }

        /// <summary>Throws, or returns when the server answered that it does not lead.</summary>
        private void NoteRefusal(Reply reply, Connection connection)
        {
            if (reply.IsLeaderless)
            {
                leaderless = true;
                if (reply.Op == 'E')
                {
                    router.LeadsNoMore(connection);
                }

                return;
            }

            switch (reply.Op)
            {
                case 'T':
                    throw new LockTimeoutException();
                case 'B':
                    throw new BusyException();
                case 'I':
                    throw new IndeterminateException(
                        "the leader changed while the acquire was in progress; do not enter the critical section");
                default:
                    throw new RejectedException(reply.Detail);
            }
        }

        private void ThrowIfInterrupted()
        {
            if (closing.IsCancellationRequested)
            {
                throw new ClosedException("the broker is closed");
            }

            caller.ThrowIfCancellationRequested();
        }

        /// <summary>The error when the wait is over and nothing is outstanding.</summary>
        private TicketingException Exhausted()
        {
            if (leaderless)
            {
                return new NoLeaderException();
            }

            if (everUsable)
            {
                return new LockTimeoutException();
            }

            return router.Refused
                ? (TicketingException)new UnauthorizedException()
                : new NotConnectedException($"no server was reachable within the wait: {router.LastFailure}");
        }

        private sealed class Attempt : Request
        {
            private readonly Acquire acquire;
            private readonly TaskCompletionSource<(End, Reply)> result =
                new TaskCompletionSource<(End, Reply)>(TaskCreationOptions.RunContinuationsAsynchronously);

            private volatile byte waitSent;

            internal Attempt(Acquire acquire)
                : base(Protocol.AcquireKind(acquire.keys), acquire.keys)
            {
                this.acquire = acquire;
            }

            internal Task<(End End, Reply Reply)> Result => result.Task;

            internal TimeSpan GraceEnd => SentAt + TimeSpan.FromSeconds(waitSent) + Limits.AnswerGrace;

            /// <summary>The wait is rounded up, so that a wait of 1 never becomes the immediate try 0.</summary>
            internal override byte[] Frame(ulong requestId, TimeSpan now)
            {
                if (acquire.options.WaitSeconds != 0)
                {
                    waitSent = (byte)Math.Max(1, Math.Ceiling((acquire.deadline - now).TotalSeconds));
                }

                return Protocol.Acquire(requestId, waitSent, acquire.options.LeaseSeconds, Keys);
            }

            protected override void Ended(End end, Reply reply) => result.TrySetResult((end, reply));
        }
    }
}
