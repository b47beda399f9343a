// Prints what each identifier of the Kotlin files below some folders means, as the Kotlin compiler says: path, line and
// column of the use, and of the definition (an empty path: outside of the folders).
//
//     java -cp 'JARS/*' evals/references/kotlin/Uses.java ROOT FOLDER,FOLDER
//
// JARS has a Kotlin 1.9 compiler, as in the wheel kotlin-jupyter-kernel 0.12. All files form one module with the Java files next
// to them, without libraries, so what a library says is not known and such places are not printed. Nothing of the repository is run.
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.stream.*;
import org.jetbrains.kotlin.analyzer.AnalysisResult;
import org.jetbrains.kotlin.cli.common.CLIConfigurationKeys;
import org.jetbrains.kotlin.cli.common.config.ContentRootsKt;
import org.jetbrains.kotlin.cli.common.messages.MessageCollector;
import org.jetbrains.kotlin.cli.jvm.compiler.*;
import org.jetbrains.kotlin.cli.jvm.config.JvmContentRootsKt;
import org.jetbrains.kotlin.com.intellij.openapi.util.Disposer;
import org.jetbrains.kotlin.com.intellij.psi.*;
import org.jetbrains.kotlin.config.*;
import org.jetbrains.kotlin.descriptors.*;
import org.jetbrains.kotlin.psi.*;
import org.jetbrains.kotlin.resolve.*;

public class Uses {
    static Path root;
    static final StringBuilder out = new StringBuilder();
    static final Map<PsiFile, String> texts = new HashMap<>();

    public static void main(String[] given) throws Exception {
        root = Path.of(given[0]).toRealPath();
        List<String> folders = new ArrayList<>();
        for (String folder : given[1].split(",")) folders.add(root.resolve(folder).toString());
        CompilerConfiguration configuration = new CompilerConfiguration();
        configuration.put(CommonConfigurationKeys.MODULE_NAME, "uses");
        configuration.put(CLIConfigurationKeys.MESSAGE_COLLECTOR_KEY, MessageCollector.Companion.getNONE());
        configuration.put(CommonConfigurationKeys.LANGUAGE_VERSION_SETTINGS, new LanguageVersionSettingsImpl(
            LanguageVersion.KOTLIN_1_9, ApiVersion.KOTLIN_1_9, Map.of(),
            Map.of(LanguageFeature.MultiPlatformProjects, LanguageFeature.State.ENABLED)));
        List<File> jars = new ArrayList<>();
        for (String jar : System.getProperty("java.class.path").split(File.pathSeparator)) jars.add(new File(jar));
        jars.removeIf(jar -> !jar.getName().startsWith("kotlin-stdlib"));
        JvmContentRootsKt.addJvmClasspathRoots(configuration, jars);
        for (String folder : folders) {
            ContentRootsKt.addKotlinSourceRoot(configuration, folder);
            JvmContentRootsKt.addJavaSourceRoot(configuration, new File(folder), null);
        }
        KotlinCoreEnvironment environment = KotlinCoreEnvironment.createForProduction(
            Disposer.newDisposable("uses"), configuration, EnvironmentConfigFiles.JVM_CONFIG_FILES);
        AnalysisResult result = TopDownAnalyzerFacadeForJVM.analyzeFilesWithJavaIntegration(environment.getProject(),
            environment.getSourceFiles(), new NoScopeRecordCliBindingTrace(), configuration, environment::createPackagePartProvider);
        BindingContext context = result.getBindingContext();
        for (KtFile file : environment.getSourceFiles()) {
            file.accept(new KtTreeVisitorVoid() {
                @Override public void visitElement(PsiElement element) {
                    if (element instanceof KtNameReferenceExpression) use((KtNameReferenceExpression) element, context);
                    if (element instanceof KtNamedDeclaration) {
                        PsiElement name = ((KtNamedDeclaration) element).getNameIdentifier();
                        if (name != null) out.append(at(name)).append("\t").append(at(name)).append("\n");
                    }
                    super.visitElement(element);
                }
            });
        }
        PrintStream printed = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
        printed.print(out);
        printed.flush();
        System.exit(0);
    }

    static void use(KtNameReferenceExpression expression, BindingContext context) {
        Set<DeclarationDescriptor> meant = new LinkedHashSet<>();
        DeclarationDescriptor single = context.get(BindingContext.REFERENCE_TARGET, expression);
        if (single != null) meant.add(single);
        Collection<? extends DeclarationDescriptor> several = context.get(BindingContext.AMBIGUOUS_REFERENCE_TARGET, expression);
        // Several candidates are an answer in an import only; elsewhere the call could not be resolved without libraries.
        if (several != null && isImport(expression)) meant.addAll(several);
        if (context.get(BindingContext.SHORT_REFERENCE_TO_COMPANION_OBJECT, expression) != null)
            meant = Set.of(context.get(BindingContext.SHORT_REFERENCE_TO_COMPANION_OBJECT, expression));
        for (DeclarationDescriptor descriptor : meant) {
            if (org.jetbrains.kotlin.types.error.ErrorUtils.isError(descriptor)) continue;
            PsiElement source = descriptor instanceof PackageViewDescriptor ? null : DescriptorToSourceUtils.descriptorToDeclaration(descriptor);
            if (source instanceof KtConstructor) source = ((KtConstructor<?>) source).getContainingClassOrObject();
            PsiElement name = source instanceof KtNamedDeclaration ? ((KtNamedDeclaration) source).getNameIdentifier()
                : source instanceof PsiNameIdentifierOwner ? ((PsiNameIdentifierOwner) source).getNameIdentifier() : null;
            String place = name == null ? null : at(name);
            out.append(at(expression)).append("\t").append(place == null ? "\t0\t0" : place).append("\n");
        }
    }

    static boolean isImport(PsiElement element) {
        for (PsiElement outer = element; outer != null; outer = outer.getParent()) if (outer instanceof KtImportDirective) return true;
        return false;
    }

    static String at(PsiElement element) {
        PsiFile file = element.getContainingFile();
        String text = texts.computeIfAbsent(file, PsiFile::getText);
        int offset = element.getTextRange().getStartOffset();
        int start = text.lastIndexOf('\n', offset - 1) + 1;
        int line = 1;
        for (int index = 0; index < start; index++) if (text.charAt(index) == '\n') line++;
        String path = file.getVirtualFile().getPath();
        if (!path.startsWith(root.toString())) return null;
        return path.substring(root.toString().length() + 1) + "\t" + line + "\t" + (text.codePointCount(start, offset) + 1);
    }
}
