using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;

namespace Ticketing
{
    /// <summary>A definite answer to a release.</summary>
    public enum ReleaseOutcome
    {
        /// <summary>That token holds nothing: the lease had ended, or an earlier attempt had released it.</summary>
        NotHeld,

        /// <summary>Released.</summary>
        Released,
    }

    /// <summary>All releases of a broker, bounded apart from its acquires.</summary>
    internal sealed class Releaser
    {
        private readonly Router router;
        private readonly SemaphoreSlim permits = new SemaphoreSlim(Limits.ReleaseCountMax);
        private readonly ConcurrentDictionary<Release, Task> underWay = new ConcurrentDictionary<Release, Task>();
        private volatile bool closed;

        internal Releaser(Router router)
        {
            this.router = router;
        }

        /// <summary>For a caller's ticket. Fails with ClientCapacity, Closed, Rejected or ReleaseUnconfirmed.</summary>
        internal Task<ReleaseOutcome> Release(byte[][] keys, ulong token) =>
            closed
                ? Task.FromException<ReleaseOutcome>(new ClosedException("the broker is closed; the lease ends this lock"))
                : GiveBack(keys, token);

        /// <summary>For a grant that nobody wants.</summary>
        internal async Task<ReleaseOutcome> GiveBack(byte[][] keys, ulong token)
        {
            if (!permits.Wait(0))
            {
                throw new ClientCapacityException(
                    $"{Limits.ReleaseCountMax} releases are under way; the lease ends this lock");
            }

            var release = new Release(router, keys, token);
            try
            {
                Task<ReleaseOutcome> work = release.Run();
                underWay[release] = work;
                return await work.ConfigureAwait(false);
            }
            finally
            {
                underWay.TryRemove(release, out _);
                permits.Release();
            }
        }

        /// <summary>Releases a grant that nobody wants, without a report.</summary>
        internal void GiveBackInBackground(byte[][] keys, ulong token) => Forget(GiveBack(keys, token));

        /// <summary>Notes that nobody looks at the task's failure.</summary>
        internal static void Forget(Task task) =>
            task.ContinueWith(done => _ = done.Exception, TaskContinuationOptions.OnlyOnFaulted | TaskContinuationOptions.ExecuteSynchronously);

        /// <summary>Refuses what callers ask for from now on. A grant that nobody wants is still given back.</summary>
        internal void Close() => closed = true;

        /// <summary>Completes when no release is under way, at the latest after the release window.</summary>
        internal async Task Drain()
        {
            using var enough = new CancellationTokenSource();
            Task all = Task.WhenAll(underWay.Values.ToArray());
            Forget(all);
            await Task.WhenAny(all, Clock.Pause(Limits.ReleaseWindow, enough.Token)).ConfigureAwait(false);
            enough.Cancel();
        }
    }

    /// <summary>One logical release: sent again for 5 s from the call, until some attempt's answer is definite.</summary>
    internal sealed class Release
    {
        private readonly Router router;
        private readonly byte[][] keys;
        private readonly ulong token;
        private readonly TimeSpan deadline = Clock.Now + Limits.ReleaseWindow;
        private readonly object gate = new object();

        /// <summary>Connections that owe an answer to an attempt of this release.</summary>
        private readonly HashSet<Connection> silent = new HashSet<Connection>();

        private Connection? last;
        private ReleaseOutcome? outcome;
        private TicketingException? failure;
        private CancellationTokenSource wake = new CancellationTokenSource();

        internal Release(Router router, byte[][] keys, ulong token)
        {
            this.router = router;
            this.keys = keys;
            this.token = token;
        }

        private bool IsDefinite
        {
            get
            {
                lock (gate)
                {
                    return outcome != null || failure != null;
                }
            }
        }

        internal async Task<ReleaseOutcome> Run()
        {
            TimeSpan retryPause = Limits.RetryPauseMin;
            while (!IsDefinite && Clock.Now < deadline)
            {
                Connection? connection = Choose();
                bool isSilent = connection != null && await Attempt(connection).ConfigureAwait(false);
                if (IsDefinite)
                {
                    break;
                }

                if (!isSilent)
                {
                    TimeSpan left = deadline - Clock.Now;
                    await Sleep(retryPause < left ? retryPause : left).ConfigureAwait(false);
                    retryPause = retryPause + retryPause < Limits.RetryPauseMax ? retryPause + retryPause : Limits.RetryPauseMax;
                }
            }

            lock (gate)
            {
                return outcome ?? throw failure ?? new ReleaseUnconfirmedException(
                    $"no definite answer within {Limits.ReleaseWindow.TotalSeconds} s; the lease ends the lock");
            }
        }

        /// <summary>A connection without a silent attempt of this release; when all have one, another than the last.</summary>
        private Connection? Choose()
        {
            lock (gate)
            {
                Connection? connection = router.Choose(silent);
                if (connection != null && last != null && silent.Contains(connection))
                {
                    connection = router.Choose(new[] { last });
                }

                last = connection;
                return connection;
            }
        }

        /// <summary>Sends the release once, and waits until this attempt has ended or its time is over: then true.</summary>
        private async Task<bool> Attempt(Connection connection)
        {
            lock (gate)
            {
                silent.Add(connection);
            }

            var attempt = new AttemptRequest(this, connection);
            TimeSpan end = Clock.Now + Limits.ReleaseAttempt;
            end = end < deadline ? end : deadline;
            connection.Submit(attempt);
            while (!attempt.HasEnded && !IsDefinite && Clock.Now < end)
            {
                await Sleep(end - Clock.Now, attempt).ConfigureAwait(false);
            }

            return !attempt.HasEnded;
        }

        /// <summary>Ends early when some attempt ends, or at once when this one has.</summary>
        private async Task Sleep(TimeSpan time, AttemptRequest? attempt = null)
        {
            var early = new CancellationTokenSource();
            lock (gate)
            {
                wake = early;
                if (attempt?.HasEnded == true || outcome != null || failure != null)
                {
                    return;
                }
            }

            await Clock.Pause(time, early.Token).ConfigureAwait(false);
        }

        private void Note(AttemptRequest attempt, Connection connection, End end, Reply reply)
        {
            CancellationTokenSource sleeper;
            lock (gate)
            {
                attempt.HasEnded = true;
                silent.Remove(connection);
                if (end == End.Answered)
                {
                    Judge(connection, reply);
                }

                sleeper = wake;
            }

            sleeper.Cancel();
        }

        private void Judge(Connection connection, Reply reply)
        {
            if (reply.Op == 'R' || reply.Op == 'G')
            {
                outcome = ReleaseOutcome.Released;
            }
            else if (reply.Op == 'N')
            {
                outcome ??= ReleaseOutcome.NotHeld;
            }
            else if (reply.Op == 'E' && reply.IsLeaderless)
            {
                router.LeadsNoMore(connection);
            }
            else if (reply.Op == 'E')
            {
                failure ??= new RejectedException(reply.Detail);
            }
        }

        private sealed class AttemptRequest : Request
        {
            private readonly Release release;
            private readonly Connection connection;
            private volatile bool hasEnded;

            internal AttemptRequest(Release release, Connection connection)
                : base(Protocol.ReleaseKind(release.keys), release.keys)
            {
                this.release = release;
                this.connection = connection;
            }

            internal bool HasEnded
            {
                get => hasEnded;
                set => hasEnded = value;
            }

            internal override byte[] Frame(ulong requestId, TimeSpan now) => Protocol.Release(requestId, release.token, Keys);

            protected override void Ended(End end, Reply reply) => release.Note(this, connection, end, reply);
        }
    }
}
