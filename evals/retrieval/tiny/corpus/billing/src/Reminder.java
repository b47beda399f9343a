package billing;

import java.time.LocalDate;

/** Decides when an unpaid bill is dunned, and how sternly. */
public final class Reminder {
    private static final int FRIENDLY_DAYS = 14;
    private static final int STERN_DAYS = 30;

    public enum Tone { NONE, FRIENDLY, STERN }

    public Tone toneFor(LocalDate due, LocalDate today) {
        long late = today.toEpochDay() - due.toEpochDay();
        if (late >= STERN_DAYS) return Tone.STERN;
        return late >= FRIENDLY_DAYS ? Tone.FRIENDLY : Tone.NONE;
    }
}
